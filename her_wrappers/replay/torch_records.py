"""Records on a torch device, as the same rows of bytes as on the host; fields are views."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from her_wrappers.replay.byte_rows import ring_slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import DTypeLike

WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Dtypes of words by size in bytes; torch takes ten times as long to gather single bytes."""


def to_tensor(device: str | torch.device, *, are_arrays: bool) -> Callable[[Any], torch.Tensor]:
    """Return a function that converts arrays (or moves tensors) to tensors on a device.

    On the CPU a tensor shares the array's memory. Copies to CUDA go through pinned memory, asynchronously.

    Args:
        device: Device of the tensors.
        are_arrays: Whether all arguments of the function will be NumPy arrays, which allows a faster one.
    """
    target = torch.device(device)
    if target.type == "cpu" and are_arrays:
        return torch.from_numpy  # in a third of the time of `to`
    return lambda array: pin(array, target).to(target, non_blocking=target.type == "cuda")


def pin(array: np.ndarray | torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return an array as a tensor, in pinned memory if its values will be copied from the host to CUDA."""
    tensor = torch.from_numpy(array) if isinstance(array, np.ndarray) else array
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor
    # The memory must be contiguous, or else it would be copied again, synchronously. `Tensor.pin_memory` does
    # not make it contiguous.
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
    return pinned.copy_(tensor)


def empty_bytes(shape: Sequence[int], device: torch.device) -> torch.Tensor:
    """Allocate uint8 memory on a device.

    Raises:
        MemoryError: Not enough memory on the device.
    """
    try:
        return torch.empty(tuple(shape), dtype=torch.uint8, device=device)
    except (RuntimeError, TypeError) as error:  # TypeError: sizes of more than 64 bits
        gigabytes = float(np.prod(shape, dtype=np.float64)) / 2**30
        raise MemoryError(f"cannot allocate {gigabytes:.1f} GiB on {device}") from error


def torch_dtype(name: str, dtype: np.dtype[Any]) -> torch.dtype:
    """Return the dtype of torch for one of NumPy.

    Args:
        name: Name of the array in the message.
        dtype: Dtype of the array.

    Raises:
        TypeError: torch has no equivalent of ``dtype``.
    """
    kind = "bool" if dtype.kind == "b" else dtype.name
    found = getattr(torch, kind, None)
    if not isinstance(found, torch.dtype) or not dtype.isnative:
        raise TypeError(
            f"{name} has dtype {dtype}, which torch {torch.__version__} does not have; leave device out for "
            "NumPy arrays"
        )
    return found


class TensorField(NamedTuple):
    """Dtype and shape of a field, and its position in a record, counted in elements of that dtype."""

    begin: int
    end: int
    dtype: torch.dtype
    shape: tuple[int, ...]


class TensorRecords:
    """Records on a device, used like a structured array: ``records[name]`` is a view of a field.

    Args:
        rows: (..., size of a record) uint8.
        dtype: Dtype of the records.
        fields: Cache of the fields that were looked up in the dtype, since looking up is slow; or None.

    Attributes:
        rows: The bytes.
        dtype: Dtype of the records.
    """

    def __init__(
        self, rows: torch.Tensor, dtype: np.dtype[Any], fields: dict[str, TensorField] | None = None
    ) -> None:
        self.rows = rows
        self.dtype = dtype
        self._views: dict[torch.dtype, torch.Tensor] = {}
        self._fields = {} if fields is None else fields

    def __len__(self) -> int:
        """Return the length of the first axis."""
        return len(self.rows)

    def __iter__(self) -> Iterator[TensorRecords]:
        """Iterate over the first axis."""
        return (TensorRecords(rows, self.dtype, self._fields) for rows in self.rows.unbind())

    def __getitem__(self, key: Any) -> Any:
        """Return a view: a tensor of the field if ``key`` is a name, else some of the records."""
        if not isinstance(key, str):
            return TensorRecords(self.rows[key], self.dtype, self._fields)
        begin, end, dtype, shape = self._field(key)
        if dtype not in self._views:
            self._views[dtype] = self.rows.view(dtype)
        values = self._views[dtype][..., begin:end]
        if len(shape) == 1:
            return values
        return values.view(*values.shape[:-1], *shape) if shape else values[..., 0]

    def repeat_rows(self, times: int) -> TensorRecords:
        """Repeat each record on the last axis."""
        return TensorRecords(self.rows.repeat_interleave(times, dim=-2), self.dtype, self._fields)

    def to_numpy(self) -> np.ndarray:
        """Return a structured array of the same records; waits for the device."""
        records: np.ndarray = self.rows.cpu().contiguous().numpy().view(self.dtype)[..., 0]
        return records

    def _field(self, name: str) -> TensorField:
        if name not in self._fields:
            fields: Mapping[str, Any] = self.dtype.fields or {}
            dtype, begin = fields[name][:2]
            first = begin // dtype.base.itemsize
            count = math.prod(dtype.shape)
            self._fields[name] = TensorField(first, first + count, torch_dtype(name, dtype.base), dtype.shape)
        return self._fields[name]


class TensorRing:
    """Memory for records on a device, with the methods of `ByteRing`.

    Args:
        capacity: Number of slots.
        dtype: Dtype of the records.
        device: Device of the memory.

    Raises:
        MemoryError: Not enough memory on the device.
    """

    def __init__(self, capacity: int, dtype: DTypeLike, device: torch.device) -> None:
        self.capacity = capacity
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._device = device
        with torch.inference_mode(False):  # so that it can be written in inference mode and outside
            self.memory = empty_bytes((capacity, self.dtype.itemsize), device)
        self._fields: dict[str, TensorField] = {}

    @property
    def nbytes(self) -> int:
        """Size of the memory in bytes."""
        return self.memory.numel()

    def take(self, slots: torch.Tensor) -> TensorRecords:
        """Return copies of records, in the shape of ``slots``; unlike `ByteRing.take`, without wrapping."""
        rows = take_row_bytes(self.memory, slots.reshape(-1))
        return TensorRecords(rows.view(*slots.shape, rows.shape[-1]), self.dtype, self._fields)

    def take_range(self, first: int, end: int) -> np.ndarray:
        """Return the records with the serial numbers from ``first`` to before ``end`` as an array."""
        slots = torch.from_numpy(np.arange(first, end) % self.capacity).to(self._device)
        return self.take(slots).to_numpy()

    def write(self, serial: int, records: np.ndarray) -> None:
        """Copy (n,) records to the slots of the serial numbers from ``serial`` on."""
        for slots, part in ring_slices(serial, len(records), self.capacity):
            rows = _row_bytes(records[part])
            self.memory[slots].copy_(pin(rows, self._device), non_blocking=True)

    def fill(self, slots: slice, function: Callable[[np.ndarray], None]) -> None:
        """Call a function that writes records to an array, and copy them to ``slots`` on the device."""
        records = np.empty(slots.stop - slots.start, self.dtype)
        function(records)
        self.memory[slots].copy_(pin(_row_bytes(records), self._device), non_blocking=True)

    def resized(self, first: int, end: int, capacity: int) -> TensorRing:
        """Return a ring of another capacity that has the records from ``first`` to before ``end``.

        Raises:
            MemoryError: Not enough memory on the device.
        """
        larger = TensorRing(capacity, self.dtype, self._device)
        serial = first
        while serial < end:  # piece by piece, since an index of all rows needs memory too
            old, new = serial % self.capacity, serial % capacity
            count = min(end - serial, self.capacity - old, capacity - new)
            larger.memory[new : new + count] = self.memory[old : old + count]
            serial += count
        return larger

    def converted(
        self, first: int, end: int, dtype: np.dtype[Any], copied: Mapping[str, str] | None = None
    ) -> TensorRing:
        """Return a ring with the records from ``first`` to before ``end`` as records of other fields.

        Args:
            first: Serial number of the first record.
            end: Serial number after that of the last record.
            dtype: Dtype of the new records.
            copied: Name of the old field whose values a new field gets, by the name of the new field. Other
                fields have the same name in both.

        Raises:
            MemoryError: Not enough memory on the device.
        """
        other = TensorRing(self.capacity, dtype, self._device)
        old, new = TensorRecords(self.memory, self.dtype), TensorRecords(other.memory, dtype)
        for slots, _ in ring_slices(first, end - first, self.capacity):
            for name in dtype.names or ():
                new[slots][name].copy_(old[slots][(copied or {}).get(name, name)])
        return other


def take_row_bytes(rows: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """Return copies of rows of bytes, (B, size).

    Args:
        rows: (n, size) uint8.
        slots: (B,) int64 indices of rows, on the same device.

    Raises:
        MemoryError: Not enough memory on the device.
    """
    word = WORDS[math.gcd(rows.shape[1], rows.stride(0), 8)]
    taken = empty_bytes((len(slots), rows.shape[1]), rows.device)
    torch.index_select(rows.view(word), 0, slots, out=taken.view(word))
    return taken


def _row_bytes(records: np.ndarray) -> np.ndarray:
    """Return the bytes of (n,) records, (n, size)."""
    contiguous = np.ascontiguousarray(records)
    return contiguous.view(np.uint8).reshape(len(records), records.dtype.itemsize)
