"""DeviceStorage: an `EpisodeStorage` whose records stand on a torch device.

What leads from the number of a step to its records stays on the host, where batches are drawn: the tables of
steps and segments. What a batch is made of stands on the device: the records, the desired goals of segments,
and the infos. A batch costs the host no more than starting the operations that gather it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from her_wrappers.replay.devices.device import empty_bytes, send
from her_wrappers.replay.devices.tensor_records import Field, TensorRecords
from her_wrappers.replay.devices.tensor_windows import TensorWindows
from her_wrappers.replay.storage.episode_storage import EpisodeStorage
from her_wrappers.replay.storage.ring import Ring
from her_wrappers.replay.storage.steps import Records, Steps, before_and_after

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from her_wrappers.replay.sampling.draws import Draw
    from her_wrappers.replay.sampling.windows import Windows
    from her_wrappers.replay.storage.encoded_episodes import EncodedEpisodes
    from her_wrappers.replay.storage.infos import InfoLayout
    from her_wrappers.replay.storage.step_layout import StepLayout

ON_DEVICE = {"record", "desired", "info"}
"""Columns that batches are made of."""

STAGED_BYTES = 2**23
"""So much is brought to the device at once."""


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


class DeviceStorage(EpisodeStorage):
    """Complete episodes, as in an `EpisodeStorage`, on a device.

    Args:
        layout: Of the records.
        buffer_size: Steps to hold.
        infos: The infos to keep.
        device: Where to hold them.

    Raises:
        MemoryError: The device has not so much memory.
    """

    def __init__(self, layout: StepLayout, buffer_size: int, infos: InfoLayout, device: torch.device) -> None:
        self._device = device
        self._goal_fields: dict[str, Field] = {}
        self.where = f"on {device} "
        super().__init__(layout, buffer_size, infos)

    def there(self, values: np.ndarray) -> Any:
        """Return values on the device."""
        return send(values, self._device)

    def send(self, draw: Draw) -> Draw:
        """Bring what batches are gathered by to the device, all at once; places there, not positions.

        In inference mode too, as tensors that can be used outside.
        """
        states, goals = draw.states % self._states.capacity, draw.sources % self._states.capacity
        goals = np.where(draw.relabeled, goals, draw.places)
        here = np.stack([draw.numbers, *np.moveaxis(states, -2, 0), goals], axis=-2)
        with torch.inference_mode(False):
            rows, relabeled, discounts, weights = (
                send(array, self._device) for array in (here, draw.relabeled, draw.discounts, draw.weights)
            )
        return draw._replace(
            numbers=rows[:, 0],
            states=rows[:, 1:3],
            sources=rows[:, 3],
            places=rows[:, 3],
            relabeled=relabeled,
            discounts=discounts,
            weights=weights,
        )

    def between(self, before: Any, after: Any) -> Any:
        """Return the (2, B) places of states before and after steps, see `EpisodeStorage.between`."""
        return torch.stack((before, after)) % self._states.capacity

    def windows(self, left: np.ndarray, n_steps: int) -> Windows:
        """Return windows of steps on the device, see `EpisodeStorage.windows`."""
        return TensorWindows(left, n_steps, self._device)

    def take(self, numbers: Any, states: Any, desired: Records) -> Steps:
        """Copy steps out, see `EpisodeStorage.take`, by tensors of numbers and places."""
        infos = self._steps.take("info", numbers % self._buffer_size) if self._infos.keys else None
        return Steps(numbers, self._states.take("record", states), desired, infos)

    def desired_goals(self, sources: Any, places: Any) -> Records:
        """Return the desired goals of steps, see `EpisodeStorage.desired_goals`, by tensors of places."""
        goal, count = self._layout.goal, len(sources)
        rows = empty_bytes((2, count + len(places), goal.itemsize), self._device)
        recorded = self._segments.column("desired").take(places).rows.view(len(places), 2, goal.itemsize)
        rows[:, :count] = self.achieved_goals(sources)
        rows[:, count:] = recorded.transpose(0, 1)
        return TensorRecords(rows, goal, self._goal_fields)

    def read(self, numbers: np.ndarray) -> Steps:
        """Copy steps out to the host, as they were recorded."""
        places, _, positions = self.locate(numbers)
        states = before_and_after(positions) % self._states.capacity
        none = np.zeros(0, np.int64)
        there = [send(rows, self._device) for rows in (numbers, states, none, places)]
        desired = self.desired_goals(there[2], there[3])
        steps = self.take(there[0], there[1], desired)
        infos = None if steps.infos is None else steps.infos.to_numpy()
        return Steps(numbers, steps.records.to_numpy(), steps.desired.to_numpy(), infos)

    def same_goals(self, states: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether achieved goals are the same, see `EpisodeStorage.same_goals`; waits for the device."""
        places = (send(rows % self._states.capacity, self._device) for rows in (states, others))
        goals = (TensorRecords(self.achieved_goals(rows), self._layout.goal) for rows in places)
        same: np.ndarray = next(goals).same_as(next(goals)).cpu().numpy()
        return same

    def _new_ring(self, capacity: int, first: int = 0, **columns: DTypeLike) -> Ring:
        return DeviceRing(self._device, capacity, first, **columns)

    def _write_states(self, episodes: EncodedEpisodes, there: slice, here: slice) -> None:
        records = self._states.column("record")
        size = max(1, STAGED_BYTES // records.dtype.itemsize)
        for first in range(here.start, here.stop, size):
            block = slice(first, min(first + size, here.stop))
            staged = np.empty(block.stop - block.start, records.dtype)
            episodes.write(staged, 0, block)
            records.write(there.start + first - here.start, staged)
