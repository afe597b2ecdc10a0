"""EpisodeAccumulator: the open episode of one environment.

Values are copied when they arrive, so environments that reuse their arrays are recorded correctly. The copies
are appended to byte arrays, which is faster than writing rows of NumPy arrays; the finished episode uses the
memory of the byte arrays. `act` and `observe` both contain the loop that appends arrays, since a function
call would slow down every step.

A KeyboardInterrupt can occur between any two instructions. A step is recorded when `length` is assigned. The
next `act` removes rows that an interrupted or failed step left after `length`.
"""

from __future__ import annotations

import copy
from array import array
from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy import ndarray

from her_wrappers.infos import as_info, describe_info, missing_info
from her_wrappers.recording.episode import Episode, unchecked
from her_wrappers.recording.values import as_reward
from her_wrappers.spaces import LeafSpec, SpaceSpec
from her_wrappers.trees import concatenate_trees, map_tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gymnasium import spaces

    from her_wrappers.trees import Tree

Column: TypeAlias = tuple[LeafSpec, "str | None", np.dtype[Any], tuple[int, ...], bytearray]
"""A leaf, its key, dtype and shape, and the bytes of its rows."""


class Phase(IntEnum):
    """State of an open episode.

    Attributes:
        READY: The next action can be recorded.
        ACTING: An action is being recorded; the environment has not received it yet.
        ACTED: The environment may have taken a step that is not recorded.
        ENDED: The last step ended the episode.
        CLOSED: No episode is open.
    """

    READY = 0
    ACTING = 1
    ACTED = 2
    ENDED = 3
    CLOSED = 4


READY, ACTING, ACTED, ENDED, CLOSED = map(int, Phase)  # reading the attribute of an enumeration is slower


class EpisodeAccumulator:
    """The open episode of one environment.

    Call `begin` with state 0. Then call `act` before every step of the environment, since the environment
    might change the array of the action, and `observe` after the step. `finish` returns the episode.

    Args:
        observation_space: Observations of the environment.
        action_space: Actions of the environment.
        info_keys: Keys of the infos to record.
        max_steps: Number of steps after which an episode ends, or None.

    Raises:
        TypeError: A space has elements that are not arrays of one shape.

    Attributes:
        length: Number of steps so far; -1 if no episode is open.
        phase: State of the episode, one of `Phase`.
        finished: The episode that `finish` returned last; None before, and after `begin` and `discard`.
        observations: Leaves of the observation space.
        actions: Leaves of the action space.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        info_keys: Iterable[str] = (),
        max_steps: int | None = None,
    ) -> None:
        self.length = -1
        self.phase = CLOSED
        self.finished: Episode | None = None
        self.observations = SpaceSpec.of("observation", observation_space)
        self.actions = SpaceSpec.of("action", action_space)
        self._info_keys = tuple(info_keys)
        self._max_steps = max_steps
        self._reset_info: dict[str, np.ndarray] = {}
        self._clear()

    def begin(self, observation: Tree, info: Mapping[str, Any]) -> None:
        """Open an episode with its first state; an episode that is still open is discarded.

        Args:
            observation: Observation in state 0.
            info: Info of the reset. Keys of infos to record may be missing, unlike after a step.

        Raises:
            ValueError: The observation does not fit its space, or an info cannot be recorded. No episode is
                open then.
        """
        self.discard()
        self._clear()
        for leaf, *_, column in self._observation_columns:
            _append(column, leaf, observation, 0, rounding=False)
        self._reset_info = {key: as_info(key, info[key], "at reset") for key in self._infos if key in info}
        self.length = 0
        self.phase = READY

    def require_continuation(self, observation: Tree) -> None:
        """Raise ValueError unless ``observation`` equals the last state of the open episode.

        Raises:
            ValueError: The observation differs, or does not fit its space.
        """
        difference = _difference(self._observation_columns, self.length, observation)
        if difference:
            raise ValueError(f"obs must equal the previous next_obs: {difference}")

    def act(self, action: Tree) -> None:
        """Record the action of the next step; `observe` completes the step.

        Args:
            action: The action; floats are rounded to the dtype of the space.

        Raises:
            ValueError: The action does not fit its space.
        """
        if self.phase != READY:
            self._remove_incomplete_step()
        self.phase = ACTING
        for leaf, key, dtype, shape, column in self._action_columns:
            try:
                value = action if key is None else action[key]
                if type(value) is ndarray and value.dtype is dtype and value.shape == shape:
                    column.extend(value)
                    continue
            except (KeyError, IndexError, TypeError):  # missing, or not contiguous
                pass
            _append(column, leaf, action, self.length, rounding=True)
        self.phase = ACTED

    def observe(
        self,
        reward: Any,
        observation: Tree,
        info: Mapping[str, Any],
        terminated: bool = False,
        truncated: bool = False,
    ) -> None:
        """Record the outcome of the step.

        Args:
            reward: Reward of the step.
            observation: State after the step.
            info: Info of the step.
            terminated: Whether the step ended the task.
            truncated: Whether the episode was cut off at this step.

        Raises:
            ValueError: The observation does not fit its space, the reward is not a number, or an info is
                missing, cannot be recorded, or has another shape or kind than before. The step is not
                recorded; call `act` before the next call of `observe`.
        """
        length = self.length
        number = reward if type(reward) is float else as_reward(reward, length)
        infos = self._read_infos(info) if self._infos else None
        for leaf, key, dtype, shape, column in self._observation_columns:
            try:
                value = observation if key is None else observation[key]
                if type(value) is ndarray and value.dtype is dtype and value.shape == shape:
                    column.extend(value)
                    continue
            except (KeyError, IndexError, TypeError):  # missing, or not contiguous
                pass
            _append(column, leaf, observation, length + 1, rounding=False)
        self._rewards.append(number)
        if infos is not None:
            for key, value in infos.items():
                self._infos[key].append(value)
        if terminated or truncated or length + 1 == self._max_steps:
            self._end = length + 1, bool(terminated), bool(truncated)
            self.length = length + 1
            self.phase = ENDED
        else:
            self.length = length + 1
            self.phase = READY

    @property
    def end(self) -> tuple[bool, bool] | None:
        """Flags ``terminated`` and ``truncated`` of the last step; None if the episode has not ended.

        Both are False if the episode ended only because of ``max_steps``.
        """
        length, *flags = self._end
        return (flags[0], flags[1]) if length == self.length else None

    def finish(self, *, terminated: bool, truncated: bool) -> Episode:
        """Close the open episode and return it, in memory that this object no longer uses.

        Args:
            terminated: Flag of the returned episode.
            truncated: Flag of the returned episode.
        """
        length = self.length
        self.finished = unchecked(
            Episode,
            observations=_tree(self.observations, self._observation_columns, length + 1),
            actions=_tree(self.actions, self._action_columns, length),
            rewards=np.frombuffer(self._rewards, count=length),
            terminated=bool(terminated),
            truncated=bool(truncated),
            infos={key: np.stack(values[:length]) for key, values in self._infos.items()},
            reset_info=self._reset_info,
        )
        self.length = -1
        self.phase = CLOSED
        return self.finished

    def copy(self) -> Episode:
        """Return a copy of the open episode, with both flags False; the episode stays open."""
        return copy.deepcopy(self).finish(terminated=False, truncated=False)

    def resume(self, episode: Episode) -> None:
        """Open an episode that `copy` returned.

        Raises:
            ValueError: The episode does not fit the spaces, or an info to record is missing.
        """

        def at(tree: Tree, t: int) -> Tree:
            return map_tree(lambda leaf: leaf[t], tree)

        self.begin(at(episode.observations, 0), episode.reset_info)
        for t, reward in enumerate(episode.rewards):
            self.act(at(episode.actions, t))
            self.observe(reward, at(episode.observations, t + 1), at(episode.infos, t))

    def discard(self) -> None:
        """Drop the open episode, if there is one, and the reference to the finished one."""
        self.length = -1
        self.phase = CLOSED
        self.finished = None

    def _clear(self) -> None:
        """Allocate new memory, since a finished episode keeps the old memory."""
        self._observation_columns = _columns(self.observations)
        self._action_columns = _columns(self.actions)
        self._rewards = array("d")
        self._infos: dict[str, list[np.ndarray]] = {key: [] for key in self._info_keys}
        self._reset_info = {}
        self._end = -1, False, False  # number of steps, terminated, truncated

    def _remove_incomplete_step(self) -> None:
        """Remove the rows that an interrupted or failed step left."""
        length = self.length
        for columns, count in ((self._observation_columns, length + 1), (self._action_columns, length)):
            for leaf, *_, column in columns:
                del column[count * leaf.nbytes :]
        del self._rewards[length:]
        for values in self._infos.values():
            del values[length:]

    def _read_infos(self, info: Mapping[str, Any]) -> dict[str, np.ndarray]:
        where, values = f"at step {self.length}", {}
        for key, earlier in self._infos.items():
            if not isinstance(info, Mapping) or key not in info:
                has = sorted(info) if isinstance(info, Mapping) else info
                raise ValueError(missing_info(key, where, has))
            value = values[key] = as_info(key, info[key], where)
            if earlier and describe_info(value) != describe_info(earlier[0]):
                raise ValueError(
                    f"info {key!r} must keep its shape and type within an episode, "
                    f"got {describe_info(earlier[0])} and then {describe_info(value)} {where}"
                )
            if earlier and value.dtype != earlier[-1].dtype:
                concatenate_trees(f"infos/{key}", [each[None] for each in (*earlier, value)])  # exact
        return values


def _columns(spec: SpaceSpec) -> list[Column]:
    return [(leaf, leaf.key, leaf.dtype, leaf.shape, bytearray()) for leaf in spec.leaves]


def _append(column: bytearray, leaf: LeafSpec, tree: Tree, t: int, *, rounding: bool) -> None:
    """Append a leaf of a tree as row ``t`` of a column."""
    where = f"at step {t}"
    column.extend(leaf.check(leaf.find(tree, where), where, rounding=rounding).tobytes())


def _difference(columns: list[Column], t: int, tree: Tree) -> str:
    """Return a description of the difference between a tree and row ``t``, or an empty text."""
    where = f"at step {t}"
    for leaf, *_, column in columns:
        value = leaf.check(leaf.find(tree, where), where)
        row = bytes(column[t * leaf.nbytes : (t + 1) * leaf.nbytes])
        if row != value.tobytes():
            was = np.frombuffer(row, leaf.dtype).reshape(leaf.shape)
            if not np.array_equal(was, value, equal_nan=leaf.dtype.kind == "f"):
                return f"{leaf.name} is {value}, was {was}"
    return ""


def _tree(spec: SpaceSpec, columns: list[Column], count: int) -> Tree:
    """Return the tree of (count, ...) arrays that share the memory of the columns."""
    return spec.build([ndarray((count, *shape), dtype, column) for _, _, dtype, shape, column in columns])
