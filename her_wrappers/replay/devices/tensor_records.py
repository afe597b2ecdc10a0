"""TensorRecords: structured arrays on a torch device.

A record is the same row of bytes there as here. Rows are gathered whole, and fields are views of the result.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from her_wrappers.replay.devices.device import empty_bytes
from her_wrappers.replay.transfer import send, staged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""What rows are gathered as: torch is ten times slower with single bytes."""


class Field(NamedTuple):
    """Where a field stands in a record, counted in numbers of its dtype, and what it is."""

    begin: int
    end: int
    dtype: torch.dtype
    shape: tuple[int, ...]


class TensorRecords:
    """Records on a device, used like a structured array.

    Args:
        rows: (..., size of a record) uint8.
        dtype: Of the records.
        fields: Those that were found in the dtype already.

    Attributes:
        rows: The bytes.
        dtype: Of the records.
    """

    def __init__(
        self, rows: torch.Tensor, dtype: np.dtype[Any], fields: dict[str, Field] | None = None
    ) -> None:
        self.rows = rows
        self.dtype = dtype
        self._views: dict[torch.dtype, torch.Tensor] = {}
        self._fields = {} if fields is None else fields  # handed on, since a dtype tells of them slowly

    @classmethod
    def empty(cls, count: int, dtype: np.dtype[Any], device: torch.device) -> TensorRecords:
        """Return records that hold anything, and can be written to in inference mode and outside.

        Raises:
            MemoryError: The device has not so much memory.
        """
        with torch.inference_mode(False):
            return cls(empty_bytes((count, dtype.itemsize), device), dtype)

    @classmethod
    def of(cls, records: np.ndarray, device: torch.device) -> TensorRecords:
        """Return copies of structured records on a device."""
        return cls(send(_as_bytes(records), device), records.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of all records."""
        return self.rows.numel()

    def __len__(self) -> int:
        """Return the number of records on the first axis."""
        return len(self.rows)

    def __iter__(self) -> Iterator[TensorRecords]:
        """Iterate over the first axis."""
        return (TensorRecords(rows, self.dtype, self._fields) for rows in self.rows.unbind())

    def __getitem__(self, key: Any) -> Any:
        """Return a view: a field by its name, as a tensor; or some of the records."""
        if not isinstance(key, str):
            return TensorRecords(self.rows[key], self.dtype, self._fields)
        begin, end, dtype, shape = self._field(key)
        if dtype not in self._views:
            self._views[dtype] = self.rows.view(dtype)
        values = self._views[dtype][..., begin:end]
        if len(shape) == 1:
            return values
        return values.view(*values.shape[:-1], *shape) if shape else values[..., 0]

    def __setitem__(self, name: str, values: torch.Tensor) -> None:
        """Write a field."""
        self[name].copy_(values)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the views behind, which would become copies."""
        return self.__dict__ | {"_views": {}}

    def take(self, positions: torch.Tensor) -> TensorRecords:
        """Return copies of records, in the shape of the positions, of which none is negative."""
        taken = _take(self.rows, positions.reshape(-1))
        return TensorRecords(taken.view(*positions.shape, taken.shape[-1]), self.dtype, self._fields)

    def take_starts(self, size: int, positions: torch.Tensor) -> torch.Tensor:
        """Return copies of the first ``size`` bytes of the records at (n,) positions, (n, size) uint8."""
        return _take(self.rows[:, :size], positions)

    def spread(self, times: int) -> TensorRecords:
        """Return each record on the last axis so many times in a row."""
        return TensorRecords(self.rows.repeat_interleave(times, dim=-2), self.dtype, self._fields)

    def write(self, first: int, records: np.ndarray) -> None:
        """Copy structured records here, from this place on."""
        rows = self.rows[first : first + len(records)]
        rows.copy_(staged(_as_bytes(records), rows.device), non_blocking=True)

    def same_as(self, other: TensorRecords) -> torch.Tensor:
        """Whether records are the same as others in all fields, to the last bit; bool in their shape."""
        same = torch.ones(self.rows.shape[:-1], dtype=torch.bool, device=self.rows.device)
        fields: Mapping[str, Any] = self.dtype.fields or {}
        for dtype, begin in fields.values():
            part = slice(begin, begin + dtype.itemsize)
            same &= (self.rows[..., part] == other.rows[..., part]).all(-1)
        return same

    def to_numpy(self) -> np.ndarray:
        """Return a structured array of the same records; waits for the device."""
        records: np.ndarray = self.rows.cpu().contiguous().numpy().view(self.dtype)[..., 0]
        return records

    def _field(self, name: str) -> Field:
        if name not in self._fields:
            fields: Mapping[str, Any] = self.dtype.fields or {}
            dtype, begin = fields[name][:2]
            first = begin // dtype.base.itemsize
            count = math.prod(dtype.shape)
            self._fields[name] = Field(first, first + count, torch_dtype(name, dtype.base), dtype.shape)
        return self._fields[name]


def torch_dtype(name: str, dtype: np.dtype[Any]) -> torch.dtype:
    """Return torch's dtype for NumPy's.

    Raises:
        TypeError: This torch has none.
    """
    kind = "bool" if dtype.kind == "b" else dtype.name
    found = getattr(torch, kind, None)
    if not isinstance(found, torch.dtype) or not dtype.isnative:
        raise TypeError(
            f"{name} has dtype {dtype}, which torch {torch.__version__} does not have; leave device out for "
            "NumPy arrays"
        )
    return found


def _take(rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Return copies of (n, size) rows of bytes.

    Raises:
        MemoryError: The device has not so much memory.
    """
    word = WORDS[math.gcd(rows.shape[1], rows.stride(0), 8)]
    taken = empty_bytes((len(positions), rows.shape[1]), rows.device)
    torch.index_select(rows.view(word), 0, positions, out=taken.view(word))
    return taken


def _as_bytes(records: np.ndarray) -> np.ndarray:
    """Return the bytes of records of any shape, with an axis for them."""
    contiguous = np.ascontiguousarray(records)
    return contiguous.view(np.uint8).reshape(*contiguous.shape, records.dtype.itemsize)
