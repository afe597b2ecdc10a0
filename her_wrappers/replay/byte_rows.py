"""Records as rows of plain bytes, which are compared as a whole and stored in ring buffers.

NumPy copies and compares rows of plain bytes several times as fast as rows of records, which NumPy handles
field by field.
"""

from __future__ import annotations

import math
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import DTypeLike


FAST_SIZES = 1, 2, 4, 8, 16
"""Row sizes in bytes that NumPy gathers in half the time of other sizes, if all rows are aligned to words."""


Records: TypeAlias = Any
"""A structured array, or the `TensorRecords` of a torch device. ``records[name]`` is a field of either."""


class StoredSteps(NamedTuple):
    """Copies of B stored steps.

    Attributes:
        records: (2, B) records of the states before and after the steps.
        desired: (2, B) records of their desired goals, before and after the steps.
        infos: (B,) records of their infos, or None if no infos are stored.
    """

    records: Records
    desired: Records
    infos: Records | None


@cache
def bytes_dtype(size: int) -> np.dtype[Any]:
    """Return the dtype of ``size`` plain bytes."""
    return np.dtype((np.void, size))


def as_bytes(leaf: np.ndarray) -> np.ndarray:
    """Return each row of an (n, ...) array as plain bytes, (n,)."""
    size = math.prod(leaf.shape[1:]) * leaf.itemsize
    return np.ndarray(len(leaf), bytes_dtype(size), np.ascontiguousarray(leaf))


def equal_bytes(leaf: np.ndarray, other: np.ndarray) -> bool:
    """Whether all (n, ...) rows equal those of another array of the same shape and dtype, bit by bit."""
    return bool((as_bytes(leaf) == as_bytes(other)).all())


def same_rows(leaves: Iterable[np.ndarray], others: Iterable[np.ndarray]) -> np.ndarray:
    """Compare n rows with n others, bit by bit.

    Args:
        leaves: (n, ...) arrays that together make up the rows, at least one.
        others: Arrays of the other rows, of the same shapes and dtypes.

    Returns:
        (n,) bool.
    """
    same = [as_bytes(leaf) == as_bytes(other) for leaf, other in zip(leaves, others, strict=True)]
    every: np.ndarray = np.logical_and.reduce(same)
    return every


def row_changes(leaves: Iterable[np.ndarray]) -> np.ndarray | None:
    """Return which of n rows differ in their bytes from the next row.

    Args:
        leaves: (n, ...) arrays that together make up the rows.

    Returns:
        (n - 1,) bool, or None if all rows are the same.
    """
    changed = None
    for leaf in leaves:
        rows = as_bytes(leaf)
        differ = rows[1:] != rows[:-1]
        if differ.nonzero()[0].size:  # a fifth of the time of `any`
            changed = differ if changed is None else changed | differ
    return changed


def ring_slices(serial: int, count: int, capacity: int) -> list[tuple[slice, slice]]:
    """Return pairs (slice of slots, slice of rows) for consecutive rows; two pairs if the rows wrap around.

    Args:
        serial: Serial number of the first row.
        count: Number of rows, at most ``capacity``.
        capacity: Number of slots of the ring.
    """
    first = serial % capacity
    until_end = min(count, capacity - first)
    slices = [(slice(first, first + until_end), slice(0, until_end))]
    if until_end < count:
        slices.append((slice(0, count - until_end), slice(until_end, count)))
    return slices


class ByteRing:
    """Memory for a number of records. The row with serial number i is in slot ``i % capacity``.

    `EpisodeIndex` records which of the slots are in use.

    Args:
        capacity: Number of slots.
        dtype: Dtype of the records.

    Attributes:
        capacity: Number of slots.
        dtype: Dtype of the records.
        memory: (capacity,) plain bytes.

    Raises:
        MemoryError: Not enough memory.
    """

    def __init__(self, capacity: int, dtype: DTypeLike) -> None:
        self.capacity = capacity
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.memory = np.empty(capacity, self.dtype).view(bytes_dtype(self.dtype.itemsize))

    @property
    def nbytes(self) -> int:
        """Size of the memory in bytes."""
        return self.memory.nbytes

    def empty_like(self, capacity: int, dtype: DTypeLike) -> ByteRing:
        """Return a ring of the same kind, whose records are not initialized."""
        return ByteRing(capacity, dtype)

    def take(self, offsets: np.ndarray) -> np.ndarray:
        """Return copies of records, in the shape of ``offsets``, which are in [-capacity, 2 * capacity)."""
        rows = self.memory.take(offsets, mode="wrap")  # "wrap" skips checks: a quarter of the time
        return np.ndarray(offsets.shape, self.dtype, rows)

    def take_range(self, first: int, end: int) -> np.ndarray:
        """Return copies of the records with the serial numbers from ``first`` to before ``end``."""
        return self.take(np.arange(first, end) % self.capacity)

    def write(self, serial: int, records: np.ndarray) -> None:
        """Copy (n,) records to the slots of the serial numbers from ``serial`` on."""
        rows = np.ndarray(len(records), self.memory.dtype, records)
        for slots, part in ring_slices(serial, len(records), self.capacity):
            self.memory[slots] = rows[part]

    def fill(self, slots: slice, function: Callable[[np.ndarray], None]) -> None:
        """Call a function that writes to its argument, a view of the records in ``slots``."""
        function(self.records(slots))

    def records(self, slots: slice) -> np.ndarray:
        """Return a view of the records in ``slots``."""
        rows = self.memory[slots]
        return np.ndarray(len(rows), self.dtype, rows)

    def resized(self, first: int, end: int, capacity: int) -> ByteRing:
        """Return a ring of another capacity with the records of the serial numbers ``first`` to ``end`` - 1.

        Raises:
            MemoryError: Not enough memory.
        """
        larger = self.empty_like(capacity, self.dtype)
        serials = np.arange(first, end)
        larger.memory[serials % capacity] = self.memory[serials % self.capacity]
        return larger

    def converted(
        self, first: int, end: int, dtype: np.dtype[Any], copied: Mapping[str, str] = MappingProxyType({})
    ) -> ByteRing:
        """Return a ring with the records from ``first`` to before ``end`` as records of other fields.

        Args:
            first: Serial number of the first record.
            end: Serial number after that of the last record.
            dtype: Dtype of the new records.
            copied: Name of the old field whose values a new field gets, by the name of the new field. Other
                fields have the same name in both.

        Raises:
            MemoryError: Not enough memory.
        """
        other = self.empty_like(self.capacity, dtype)
        for slots, _ in ring_slices(first, end - first, self.capacity):
            old, new = self.records(slots), other.records(slots)
            for name in dtype.names or ():
                new[name] = old[copied.get(name, name)]
        return other


def select_fields(dtype: np.dtype[Any], names: Sequence[str], size: int) -> np.dtype[Any]:
    """Return a dtype of ``size`` bytes with the named fields of another dtype, at equal relative offsets."""
    fields: Mapping[str, Any] = dtype.fields or {}
    formats, offsets = [], []
    for name in names:
        formats.append(fields[name][0])
        offsets.append(fields[name][1] - fields[names[0]][1])
    return np.dtype({"names": list(names), "formats": formats, "offsets": offsets, "itemsize": size})


def fast_itemsize(size: int) -> int:
    """Return the smallest record size >= ``size`` that NumPy gathers fast, or ``size`` if there is none."""
    return min((fast for fast in FAST_SIZES if fast >= size), default=size)
