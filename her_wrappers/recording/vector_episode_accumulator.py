"""VectorEpisodeAccumulator: the open episodes of a vector environment.

The time between two joint steps of the environments is called a moment, and has one row in a ring, see
`StepRing`. The open episode of an environment consists of the rows from its first moment to the current
moment. The ring grows if the longest open episode does not fit.

A KeyboardInterrupt can occur between any two instructions. A step first writes values that do not belong to
an open episode yet. Then a single assignment of a new `_State` records the step, closes the episodes that
ended, and opens the next ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.last_states import LastStates, ReuseWatch, read_last_observations
from her_wrappers.recording.step_ring import Rows, StepRing
from her_wrappers.recording.values import as_rewards
from her_wrappers.spaces import SpaceSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gymnasium import spaces

    from her_wrappers.infos import Where
    from her_wrappers.trees import Tree

FIRST_CAPACITY = 64
"""Number of rows of a new ring."""


class _State(NamedTuple):
    """The moments (rows of the ring) at which episodes began, and flags of the environments.

    Attributes:
        now: The current moment.
        oldest: A moment at or before the first moments of all open episodes.
        begun: (N,) int64, first moments of the open episodes.
        is_open: (N,) bool, whether the environment has an open episode.
        is_ended: (N,) bool, whether the next step of the environment is a reset and not a transition.
        in_doubt: (N,) bool, whether the next step of the environment could be a reset.
        finished: Episodes that ended and were not released, or None.
    """

    now: int
    oldest: int
    begun: np.ndarray
    is_open: np.ndarray
    is_ended: np.ndarray
    in_doubt: np.ndarray
    finished: Episodes | None = None

    @property
    def lengths(self) -> np.ndarray:
        """(N,) int64, number of steps of each environment's open episode; -1 if it has none."""
        lengths: np.ndarray = np.where(self.is_open, self.now - self.begun, -1)
        return lengths


class _Outcome(NamedTuple):
    """Validated outcome of a step."""

    rewards: np.ndarray  # (N,)
    observations: list[np.ndarray]  # the leaves, (N, ...)
    infos: dict[str, Any]
    terminated: np.ndarray  # (N,) bool
    truncated: np.ndarray  # (N,) bool
    last: LastStates | None


class VectorEpisodeAccumulator:
    """The open episodes of ``num_envs`` environments that step together.

    Call `begin` to open episodes. Then call `act` before every step of the environments, since they might
    change the array of the actions, and `observe` after the step. Episodes that end are in `finished` until
    `release` is called.

    Args:
        observation_space: Observations of one environment.
        action_space: Actions of one environment.
        num_envs: Number of environments, N.
        mode: Autoreset mode of the environments.
        info_keys: Keys of the infos to record.
        max_steps: Number of steps after which an episode ends as truncated and the next one begins in the
            same state, or None.
        may_reset_twice: Whether an environment whose episode ended and which ``reset`` has reset may reset
            itself once more at the next step.

    Raises:
        TypeError: A space has elements that are not arrays of one shape.

    Attributes:
        is_moving: Whether the environments may have taken a step that is not recorded.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        num_envs: int,
        mode: AutoresetMode,
        *,
        info_keys: Iterable[str] = (),
        max_steps: int | None = None,
        may_reset_twice: bool = False,
    ) -> None:
        self._num_envs = num_envs
        self._mode = mode
        self._max_steps = max_steps
        self._may_reset_twice = may_reset_twice
        self._reuse_watch = ReuseWatch()
        observations = SpaceSpec.of("observation", observation_space)
        actions = SpaceSpec.of("action", action_space)
        self._ring = StepRing.empty(observations, actions, num_envs, info_keys, FIRST_CAPACITY)
        none = np.zeros(num_envs, bool)
        self._state = _State(0, 0, np.zeros(num_envs, np.int64), none, none, none)
        self._ended_last: np.ndarray | None = none  # (N,) bool, by the flags of the last step, if known
        self.is_moving = False

    @property
    def finished(self) -> Episodes | None:
        """Episodes that ended and were not released yet; they have their own memory."""
        return self._state.finished

    @property
    def is_idle(self) -> np.ndarray:
        """(N,) bool, whether the environment needs a reset before the next step."""
        idle: np.ndarray = ~(self._state.is_open | self._state.is_ended)
        return idle

    def release(self) -> None:
        """Drop the finished episodes."""
        self._state = self._state._replace(finished=None)

    def begin(self, rows: np.ndarray, observations: Tree, infos: Any) -> None:
        """Open episodes with their first states.

        Args:
            rows: (n,) indices of the environments, which have no open episodes.
            observations: Observations of all environments.
            infos: Infos of all environments.

        Raises:
            ValueError: An observation does not fit its space, or an info cannot be recorded.
        """
        self._rewind(0)
        state, ring = self._state, self._ring
        values = ring.observations.check(observations, lambda i: f"at step 0 of environment {i}")
        required = np.zeros(self._num_envs, bool)
        batches = ring.infos.read(infos, required, lambda i: f"at reset of environment {i}")
        slot = state.now % ring.capacity
        ring.observations.write(slot, values, rows)
        ring.infos.write(slot, batches, rows)
        chosen = np.zeros(self._num_envs, bool)
        chosen[rows] = True
        self._state = state._replace(
            begun=np.where(chosen, state.now, state.begun),
            is_open=state.is_open | chosen,
            is_ended=state.is_ended & ~chosen,
            in_doubt=state.in_doubt | (chosen & state.is_ended & self._may_reset_twice),
        )

    def act(self, actions: Tree) -> None:
        """Record the actions of the next step; `observe` completes the step.

        Args:
            actions: Actions of all environments; floats are rounded to the dtype of the space.

        Raises:
            ValueError: The actions do not fit their space.
        """
        self._rewind(-1)
        self._make_room()
        ring = self._ring
        values = ring.actions.check(actions, self._where(0), rounding=True)
        ring.actions.write(self._state.now % ring.capacity, values)
        self._ended_last = None
        self.is_moving = True

    def observe(
        self, observations: Tree, rewards: Any, terminations: Any, truncations: Any, infos: Any
    ) -> None:
        """Record the outcome of the step.

        Args:
            observations: Observations of all environments.
            rewards: (N,) rewards.
            terminations: (N,) bool.
            truncations: (N,) bool.
            infos: Infos of all environments.

        Raises:
            ValueError: A value cannot be recorded; the episodes do not change.
        """
        terminated = _as_flags("terminations", terminations, self._num_envs)
        truncated = _as_flags("truncations", truncations, self._num_envs)
        ended = self._ended_last = terminated | truncated
        numbers = as_rewards(rewards, self._num_envs)
        begins = self._state.is_ended
        if self._may_reset_twice:
            begins = begins | (self._state.in_doubt & ~ended & (numbers == 0))
        last, required = None, ~begins
        if self._mode is AutoresetMode.SAME_STEP and ended.any():
            last = self._read_last(np.flatnonzero(ended), infos)
            required &= ~ended
        values = self._ring.observations.check(observations, self._where(1))
        batches = self._ring.infos.read(infos, required, self._where(0))
        if last is not None:
            self._reuse_watch.compare(last.observations, [value[last.rows] for value in values])
        self._add(_Outcome(numbers, values, batches, terminated, truncated, last), begins)
        self.is_moving = False

    def truncate(self, rows: np.ndarray) -> None:
        """Close the open episodes of some environments as truncated; `finished` gets those that have steps.

        `finished` must be None before the call.

        Args:
            rows: (n,) indices of the environments, ascending.
        """
        state = self._state
        none = np.zeros(self._num_envs, bool)
        finished = self._collect(state, rows, none, ~none)
        is_open = state.is_open.copy()
        is_open[rows] = False
        self._state = state._replace(is_open=is_open, finished=finished)

    def break_off(self) -> None:
        """Close all open episodes as truncated, after a step that may have been taken but is not recorded.

        `finished` gets the episodes that have steps. It must be None before the call.
        """
        ended = np.ones(self._num_envs, bool) if self._ended_last is None else self._ended_last
        state = self._state
        none = np.zeros(self._num_envs, bool)
        self._state = state._replace(
            finished=self._collect(state, np.arange(self._num_envs), none, ~none),
            is_open=none,
            is_ended=none,
            in_doubt=(state.in_doubt | ended) & self._may_reset_twice,
        )
        self.is_moving = False

    def _add(self, outcome: _Outcome, begins: np.ndarray) -> None:
        """Write a step, and assign the state that includes it."""
        ring, state = self._ring, self._state
        ring.rewards[state.now % ring.capacity] = outcome.rewards
        slot = (state.now + 1) % ring.capacity
        ring.observations.write(slot, outcome.observations)
        ring.infos.write(slot, outcome.infos)
        ended = outcome.terminated | outcome.truncated
        state = state._replace(
            now=state.now + 1,
            is_ended=ended & (self._mode is AutoresetMode.NEXT_STEP),
            in_doubt=np.zeros_like(ended) if self._may_reset_twice else state.in_doubt,
        )
        if begins.any():
            state = _open(state, begins)
        cut = np.zeros_like(ended) if self._max_steps is None else state.lengths == self._max_steps
        over = ended | cut
        if over.any():
            rows = np.flatnonzero(over)
            truncated = outcome.truncated | (cut & ~ended)
            finished = self._collect(state, rows, outcome.terminated, truncated, outcome.last)
            state = state._replace(is_open=state.is_open & ~over, finished=finished)
            state = _open(state, over if self._mode is AutoresetMode.SAME_STEP else cut & ~ended)
        self._state = state

    def _read_last(self, rows: np.ndarray, infos: Any) -> LastStates:
        """Return the last states of the episodes that end at this step."""
        ring = self._ring
        observations = read_last_observations(
            ring.observations.spec, infos, rows, num_envs=self._num_envs, where=self._where(1)
        )
        required = np.zeros(self._num_envs, bool)
        required[rows] = True
        where = self._where(0)
        batches = ring.infos.read(
            infos.get("final_info", {}), required, lambda i: f"in final_info {where(i)}"
        )
        return LastStates(rows, observations, {key: batch.values[rows] for key, batch in batches.items()})

    def _collect(
        self,
        state: _State,
        rows: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        last: LastStates | None = None,
    ) -> Episodes | None:
        """Return a copy of the episodes of some environments; None if no open episode has steps."""
        lengths = state.lengths[rows]
        rows, lengths = rows[lengths > 0], lengths[lengths > 0]
        if not rows.size:
            return None
        ring = self._ring
        found = ring.collect(rows, state.begun[rows], lengths)
        if last is not None:
            _put_last(rows, np.cumsum(lengths), found, last)
        return Episodes(
            observations=ring.observations.spec.build(found.observations),
            actions=ring.actions.spec.build(found.actions),
            rewards=found.rewards,
            lengths=lengths,
            terminated=terminated[rows],
            truncated=truncated[rows],
            infos=found.infos,
            reset_infos=found.reset_infos,
        )

    def _where(self, ahead: int) -> Where:
        """Return a function that describes an environment and its step, ``ahead`` steps from now."""
        return lambda i: f"at step {max(0, int(self._state.lengths[i]) + ahead)} of environment {i}"

    def _rewind(self, moment: int) -> None:
        """Continue at the first slot, which is likely in the processor's cache, if no episode is open."""
        if not self._state.is_open.any():
            self._state = self._state._replace(now=moment, oldest=max(0, moment))

    def _make_room(self) -> None:
        """Enlarge the ring if the next moment would overwrite an open episode."""
        now, capacity = self._state.now, self._ring.capacity
        if now + 2 - self._state.oldest <= capacity:
            return
        oldest = int(self._state.begun[self._state.is_open].min())
        self._state = self._state._replace(oldest=oldest)
        if now + 2 - oldest > capacity:
            self._ring = self._ring.doubled(now)


def _open(state: _State, which: np.ndarray) -> _State:
    """Return a state in which the environments ``which``, (N,) bool, begin an episode at this moment."""
    return state._replace(begun=np.where(which, state.now, state.begun), is_open=state.is_open | which)


def _put_last(rows: np.ndarray, ends: np.ndarray, found: Rows, last: LastStates) -> None:
    """Replace the last states of some of the collected episodes of the environments ``rows``."""
    which = np.searchsorted(rows, last.rows)
    for array, values in zip(found.observations, last.observations, strict=True):
        array[ends[which] + which] = values
    for key, values in last.infos.items():
        found.infos[key][ends[which] - 1] = values


def _as_flags(name: str, flags: Any, count: int) -> np.ndarray:
    array = np.asarray(flags)
    if array.shape != (count,) or array.dtype != np.bool_:
        raise ValueError(f"{name} must be a bool array of shape ({count},), got {flags!r}")
    return array
