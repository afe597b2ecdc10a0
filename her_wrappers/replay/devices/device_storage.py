"""DeviceStorage: an `EpisodeStorage` whose records stand on a torch device.

What leads from the number of a step to its records stays on the host, where batches are drawn: the tables of
steps and segments. What a batch is made of stands on the device: the records, the desired goals of segments,
and the infos. A batch costs the host no more than starting the operations that gather it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from her_wrappers.replay.devices.device import empty_bytes
from her_wrappers.replay.devices.device_ring import DeviceRing
from her_wrappers.replay.devices.tensor_records import Field, TensorRecords
from her_wrappers.replay.storage.episode_storage import EpisodeStorage
from her_wrappers.replay.storage.ring import Ring
from her_wrappers.replay.storage.steps import Records, Steps, before_and_after
from her_wrappers.replay.transfer import send

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from her_wrappers.replay.storage.draw import Draw
    from her_wrappers.replay.storage.encoded_episodes import EncodedEpisodes
    from her_wrappers.replay.storage.step_layout import StepLayout

STAGED_BYTES = 2**23
"""So much is brought to the device at once."""


class DeviceStorage(EpisodeStorage):
    """Complete episodes, as in an `EpisodeStorage`, on a device.

    Args:
        layout: Of the records.
        buffer_size: Steps to hold.
        device: Where to hold them.

    Raises:
        MemoryError: The device has not so much memory.
    """

    def __init__(self, layout: StepLayout, buffer_size: int, device: torch.device) -> None:
        self._device = device
        self._goal_fields: dict[str, Field] = {}
        self.where = f"on {device} "
        super().__init__(layout, buffer_size)

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

    def take(self, numbers: Any, states: Any, desired: Records) -> Steps:
        """Copy steps out, see `EpisodeStorage.take`, by tensors of numbers and places."""
        records, rows = self._states.take("record", states), self._table.steps
        infos = rows.take("info", numbers % self._buffer_size) if self._layout.infos.keys else None
        return Steps(numbers, records, desired, infos)

    def desired_goals(self, sources: Any, places: Any) -> Records:
        """Return the desired goals of steps, see `EpisodeStorage.desired_goals`, by tensors of places."""
        goal, count = self._layout.goal, len(sources)
        rows = empty_bytes((2, count + len(places), goal.itemsize), self._device)
        recorded = self._table.segments.column("desired").take(places).rows
        rows[:, :count] = self.achieved_goals(sources)
        rows[:, count:] = recorded.view(len(places), 2, goal.itemsize).transpose(0, 1)
        return TensorRecords(rows, goal, self._goal_fields)

    def read(self, numbers: np.ndarray) -> Steps:
        """Copy steps out to the host, as they were recorded."""
        located = self.locate(numbers)
        states = before_and_after(located.states) % self._states.capacity
        none = np.zeros(0, np.int64)
        there = [send(rows, self._device) for rows in (numbers, states, none, located.places)]
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
