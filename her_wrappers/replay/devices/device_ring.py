"""DeviceRing: a `Ring` with some of its columns on a torch device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.replay.devices.tensor_records import TensorRecords
from her_wrappers.replay.storage.ring import Ring

if TYPE_CHECKING:
    import torch
    from numpy.typing import DTypeLike

ON_DEVICE = {"record", "desired", "info"}
"""Columns that batches are made of."""


class DeviceRing(Ring):
    """A ring with some of its columns on a device.

    Args:
        device: Where the columns of `ON_DEVICE` are.
        capacity: Rows there is room for.
        first: Number of the row that will come first.
        **columns: Dtype of each column.
    """

    def __init__(self, device: torch.device, capacity: int, first: int = 0, **columns: DTypeLike) -> None:
        self._device = device
        self._records: dict[str, TensorRecords] = {}
        super().__init__(capacity, first, **columns)

    @property
    def nbytes(self) -> int:
        """Bytes allocated, here and there."""
        return super().nbytes + sum(records.nbytes for records in self._records.values())

    def column(self, name: str) -> Any:
        """Return the memory of a column, see `Ring.column`; on the device as `TensorRecords`."""
        return self._records[name] if name in self._records else super().column(name)

    def append(self, **rows: np.ndarray) -> list[tuple[slice, slice]]:
        """Add rows behind the last, see `Ring.append`."""
        pieces = super().append(**rows)
        for name, records in self._records.items():
            for there, here in pieces:
                records.write(there.start, rows[name][here])
        return pieces

    def take(self, column: str, positions: Any) -> Any:
        """Return copies of rows, see `Ring.take`; on the device for tensors of places."""
        if column not in self._records:
            return super().take(column, positions)
        return self._records[column].take(positions)

    def take_starts(self, column: str, size: int, positions: Any) -> Any:
        """Return copies of the first ``size`` bytes of the rows at (n,) places."""
        return self._records[column].take_starts(size, positions)

    def grow(self, capacity: int) -> None:
        """Make room for ``capacity`` rows."""
        larger = {name: self._grown(records, capacity) for name, records in self._records.items()}
        super().grow(capacity)
        self._records = larger

    def _grown(self, records: TensorRecords, capacity: int) -> TensorRecords:
        larger = TensorRecords.empty(capacity, records.dtype, self._device)
        number = self.first
        while number < self.end:  # piece by piece: there is not twice the memory
            old, new = number % self.capacity, number % capacity
            count = min(self.end - number, self.capacity - old, capacity - new)
            larger.rows[new : new + count] = records.rows[old : old + count]
            number += count
        return larger

    def __getstate__(self) -> dict[str, Any]:
        """Keep the rows that there are, see `Ring`."""
        rows = {
            # Of a view, torch would keep all the memory that it looks at.
            name: (records.dtype, [records.rows[there].clone() for there in self._live()])
            for name, records in self._records.items()
        }
        return super().__getstate__() | {"_records": rows}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over rows, in memory of the same capacity as before."""
        super().__setstate__(state | {"_records": {}})
        for name, (dtype, pieces) in state["_records"].items():
            self.add_column(name, dtype)
            for there, rows in zip(self._live(), pieces, strict=True):
                self._records[name].rows[there] = rows

    def _memory(self, name: str, dtype: DTypeLike) -> Any:
        if name not in ON_DEVICE:
            return super()._memory(name, dtype)
        return TensorRecords.empty(self.capacity, np.dtype(dtype), self._device)

    def _set_column(self, name: str, values: Any) -> None:
        if name not in ON_DEVICE:
            super()._set_column(name, values)
        else:
            self._records[name] = values
