"""Timeline: what many environments do, moment by moment, until their episodes end.

Every moment is one row, at which each environment has a state. The open episode of an environment is the
stretch of its column from the moment at which it began to the present one. The rows are used in a ring, which
grows when the longest open episode asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.recording.batch_columns import BatchColumns, moved, take_rows
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.info_columns import InfoColumns
from her_wrappers.recording.last_states import LastStates, ReuseWatch, read_last_observations
from her_wrappers.recording.leaves import TransitionLeaves
from her_wrappers.trees import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gymnasium import spaces

    from her_wrappers.recording.batch_columns import Where
    from her_wrappers.trees import Tree

FIRST_CAPACITY = 64
"""Moments that there is room for at first."""


class Timeline:
    """Room for the open episodes of ``num_envs`` environments that step together.

    A step is `act` before the environments move, since they might change the actions, and `observe` after.
    Around it, `begin` opens episodes and `finish` hands them out.

    Args:
        observation_space: Observations of one environment.
        action_space: Actions of one environment.
        num_envs: Number of environments, N.
        info_keys: Entries of the infos to keep.

    Raises:
        TypeError: A space has elements that are not arrays of one shape.

    Attributes:
        is_open: (N,) bool, which environments have an episode under way.
        leaves: Of both spaces.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        num_envs: int,
        info_keys: Iterable[str] = (),
    ) -> None:
        self._num_envs = num_envs
        self._capacity = FIRST_CAPACITY
        self.leaves = TransitionLeaves.of(observation_space, action_space)
        self._observations, self._actions = (
            BatchColumns(leaves, num_envs, FIRST_CAPACITY) for leaves in self.leaves
        )
        self._rewards = np.empty((FIRST_CAPACITY, num_envs))
        self._infos = InfoColumns(info_keys, num_envs, FIRST_CAPACITY)
        self._now = 0  # a moment's slot is its number modulo the capacity
        self._begun = np.zeros(num_envs, np.int64)
        self._oldest = 0  # no open episode began before
        self._reuse_watch = ReuseWatch()
        self.is_open = np.zeros(num_envs, bool)

    @property
    def lengths(self) -> np.ndarray:
        """(N,) steps so far of the open episodes; -1 where none is open."""
        lengths: np.ndarray = np.where(self.is_open, self._now - self._begun, -1)
        return lengths

    def begin(self, rows: np.ndarray, observations: Tree, infos: Any) -> None:
        """Open episodes with their first states; those that were open there are forgotten.

        Args:
            rows: (n,) the environments.
            observations: Those of all environments.
            infos: Of all environments.

        Raises:
            ValueError: An observation does not fit its space, or an info cannot be kept.
        """
        self.is_open[rows] = False
        self._rewind(0)
        values = self._observations.check(observations, lambda i: f"at step 0 of environment {i}")
        nobody = np.zeros(self._num_envs, bool)
        batches = self._infos.read(infos, nobody, lambda i: f"at reset of environment {i}")
        slot = self._now % self._capacity
        self._observations.write(slot, values, rows)
        self._infos.write(slot, batches, rows)
        self.begin_here(rows)

    def begin_here(self, rows: np.ndarray) -> None:
        """Open episodes whose first states are the present ones, in environments by number or by mask."""
        self._begun[rows] = self._now
        self.is_open[rows] = True

    def act(self, actions: Tree) -> None:
        """Note the actions of the step that comes; they count once `observe` has seen the outcome.

        Raises:
            ValueError: The actions do not fit their space; floats may be rounded.
        """
        self._rewind(-1)
        self._make_room()
        values = self._actions.check(actions, self._where(0), rounding=True)
        self._actions.write(self._now % self._capacity, values)

    def read_last(self, rows: np.ndarray, infos: Any) -> LastStates:
        """Read the states in which episodes end at the step under way, where the infos have them.

        Args:
            rows: (n,) the environments.
            infos: Of the step.

        Raises:
            ValueError: One is missing, or cannot be kept.
        """
        observations = read_last_observations(
            self._observations.leaves, infos, rows, num_envs=self._num_envs, where=self._where(1)
        )
        required = np.zeros(self._num_envs, bool)
        required[rows] = True
        where = self._where(0)
        batches = self._infos.read(
            infos.get("final_info", {}), required, lambda i: f"in final_info {where(i)}"
        )
        return LastStates(rows, observations, {key: batch.values[rows] for key, batch in batches.items()})

    def observe(
        self,
        rewards: Any,
        observations: Tree,
        infos: Any,
        required: np.ndarray,
        last: LastStates | None = None,
    ) -> None:
        """Add the outcome of the step to all environments' columns.

        Args:
            rewards: (N,)
            observations: Those of all environments.
            infos: Of all environments.
            required: (N,) bool, the environments whose infos must be there: those that really took a step.
            last: The last states, where these observations are the first of the next episodes.

        Raises:
            ValueError: Something does not fit; everything stays as it was.
        """
        numbers = as_rewards(rewards, self._num_envs)
        values = self._observations.check(observations, self._where(1))
        batches = self._infos.read(infos, required, self._where(0))
        if last is not None:
            self._reuse_watch.look(last.observations, [value[last.rows] for value in values])
        self._rewards[self._now % self._capacity] = numbers
        self._now += 1
        slot = self._now % self._capacity
        self._observations.write(slot, values)
        self._infos.write(slot, batches)

    def finish(
        self, rows: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, last: LastStates | None = None
    ) -> Episodes | None:
        """Close episodes and return those that have steps, in memory of their own.

        Args:
            rows: (n,) the environments, in rising order.
            terminated: (N,) bool
            truncated: (N,) bool
            last: Where the present states of some are the first states of their next episodes.
        """
        lengths = self.lengths[rows]
        self.is_open[rows] = False
        rows, lengths = rows[lengths > 0], lengths[lengths > 0]
        if not rows.size:
            return None
        begun = self._begun[rows]
        states, steps, outcomes = (
            self._index(rows, start, counts)
            for start, counts in ((begun, lengths + 1), (begun, lengths), (begun + 1, lengths))
        )
        observations = self._observations.take(states)
        infos = self._infos.take(outcomes)
        if last is not None:
            self._put_last(rows, np.cumsum(lengths), observations, infos, last)
        return Episodes(
            observations=self._observations.leaves.tree(observations),
            actions=self._actions.leaves.tree(self._actions.take(steps)),
            rewards=take_rows(self._rewards, steps),
            lengths=lengths,
            terminated=terminated[rows],
            truncated=truncated[rows],
            infos=infos,
            reset_infos=self._infos.take_first(begun % self._capacity * self._num_envs + rows),
        )

    def _index(self, rows: np.ndarray, first: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return where ``counts`` moments of each environment stand, beginning with ``first``."""
        before = np.cumsum(counts) - counts
        offsets = (first % self._capacity - before) * self._num_envs + rows
        index: np.ndarray = np.arange(counts.sum()) * self._num_envs
        index += np.repeat(offsets, counts)
        return index

    @staticmethod
    def _put_last(
        rows: np.ndarray,
        ends: np.ndarray,
        observations: list[np.ndarray],
        infos: dict[str, np.ndarray],
        last: LastStates,
    ) -> None:
        """Replace the last states of some episodes in arrays that were taken."""
        which = np.searchsorted(rows, last.rows)
        for array, values in zip(observations, last.observations, strict=True):
            array[ends[which] + which] = values
        for key, values in last.infos.items():
            infos[key][ends[which] - 1] = values

    def _where(self, ahead: int) -> Where:
        """Return what says where an environment is, so many steps from the present state."""
        return lambda i: f"at step {max(0, int(self.lengths[i]) + ahead)} of environment {i}"

    def _rewind(self, moment: int) -> None:
        """Count anew where nothing is open: memory used a moment ago is the fastest to use again."""
        if not self.is_open.any():
            self._now, self._oldest = moment, max(0, moment)

    def _make_room(self) -> None:
        """See that the next moment overwrites nothing of an open episode."""
        if self._now + 2 - self._oldest <= self._capacity:
            return
        self._oldest = int(self._begun[self.is_open].min())
        if self._now + 2 - self._oldest > self._capacity:
            moments = np.arange(self._now - self._capacity, self._now) + 1
            order = np.argsort(moments % self._capacity)
            capacity = 2 * self._capacity
            slots = moments[order] % capacity
            for columns in (self._observations, self._actions, self._infos):
                columns.move(slots, capacity)
            self._rewards = moved(self._rewards, slots, capacity)
            self._capacity = capacity


def as_rewards(rewards: Any, count: int) -> np.ndarray:
    """Return the rewards of a batch as an array.

    Raises:
        ValueError: They are not one number for each environment.
    """
    try:
        numbers = np.asarray(rewards)
    except (TypeError, ValueError, RuntimeError):
        numbers = np.asarray(None)
    if numbers.shape != (count,) or numbers.dtype.kind not in NUMBERS:
        raise ValueError(f"rewards must be ({count},) numbers, got {rewards!r}")
    return numbers
