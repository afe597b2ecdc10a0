"""StepRing: a ring buffer with the steps of a vector environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from her_wrappers.recording.batch_columns import BatchColumns, moved, take_rows
from her_wrappers.recording.info_columns import InfoColumns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from her_wrappers.spaces import SpaceSpec


class Rows(NamedTuple):
    """Concatenated rows of n episodes with T steps in total, with their own memory.

    Attributes:
        observations: The leaves, each (T + n, ...).
        actions: The leaves, each (T, ...).
        rewards: (T,) float64.
        infos: Arrays (T, ...) by key.
        reset_infos: n dicts, or () if infos are not recorded.
    """

    observations: list[np.ndarray]
    actions: list[np.ndarray]
    rewards: np.ndarray
    infos: dict[str, np.ndarray]
    reset_infos: Sequence[Mapping[str, np.ndarray]]


class StepRing(NamedTuple):
    """A ring buffer with one row for each *moment*: the time between two joint steps of the environments.

    The row of a moment is in slot ``moment % capacity``. It has the observations and infos at this moment,
    and the actions and rewards of the step from this moment to the next one.

    Attributes:
        capacity: Number of rows.
        observations: Observations of all N environments.
        actions: Actions of all environments.
        rewards: (capacity, N) float64.
        infos: The requested infos of all environments.
    """

    capacity: int
    observations: BatchColumns
    actions: BatchColumns
    rewards: np.ndarray
    infos: InfoColumns

    @classmethod
    def empty(
        cls,
        observations: SpaceSpec,
        actions: SpaceSpec,
        num_envs: int,
        info_keys: Iterable[str],
        capacity: int,
    ) -> StepRing:
        """Return a ring whose rows are not initialized.

        Args:
            observations: Leaves of one environment's observation.
            actions: Leaves of one environment's action.
            num_envs: Number of environments, N.
            info_keys: Keys of the infos to store.
            capacity: Number of rows.
        """
        return cls(
            capacity,
            BatchColumns.empty(observations, num_envs, capacity),
            BatchColumns.empty(actions, num_envs, capacity),
            np.empty((capacity, num_envs)),
            InfoColumns(info_keys, num_envs, capacity),
        )

    def doubled(self, now: int) -> StepRing:
        """Return a copy with twice the capacity and the rows of the ``capacity`` moments up to ``now``."""
        moments = np.arange(now - self.capacity, now) + 1
        order = np.argsort(moments % self.capacity)
        capacity = 2 * self.capacity
        slots = moments[order] % capacity
        return StepRing(
            capacity,
            self.observations.moved(slots, capacity),
            self.actions.moved(slots, capacity),
            moved(self.rewards, slots, capacity),
            self.infos.moved(slots, capacity),
        )

    def collect(self, rows: np.ndarray, begun: np.ndarray, lengths: np.ndarray) -> Rows:
        """Return copies of the rows of some episodes.

        Args:
            rows: (n,) indices of the environments.
            begun: (n,) first moments of the episodes.
            lengths: (n,) number of steps of each episode.
        """
        states, steps, outcomes = (
            self._index(rows, first, counts)
            for first, counts in ((begun, lengths + 1), (begun, lengths), (begun + 1, lengths))
        )
        return Rows(
            self.observations.take(states),
            self.actions.take(steps),
            take_rows(self.rewards, steps),
            self.infos.take(outcomes),
            self.infos.take_first(begun % self.capacity * self._num_envs + rows),
        )

    @property
    def _num_envs(self) -> int:
        return int(self.rewards.shape[1])

    def _index(self, rows: np.ndarray, first: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return indices for `take_rows` of ``counts`` moments per environment, from ``first`` on."""
        before = np.cumsum(counts) - counts
        offsets = (first % self.capacity - before) * self._num_envs + rows
        index: np.ndarray = np.arange(counts.sum()) * self._num_envs
        index += np.repeat(offsets, counts)
        return index
