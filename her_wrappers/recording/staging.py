"""StagingArea: episodes in progress, one a row, kept until they end.

Everything that accepts transitions one by one stands on it: the recorders, ``HindsightReplayBuffer.add``.
Values are copied the moment they arrive, so environments that reuse their arrays are recorded correctly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.recording.episode import Episode
from her_wrappers.trees import as_leaf, build_tree, leaf_at, leaf_spaces, map_tree, path_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gymnasium import spaces

    from her_wrappers.trees import Path, Tree

FIRST_CAPACITY = 64
"""States that each row has room for before the area grows."""


class StagingArea:
    """Room for the open episodes of ``num_envs`` environments, which grows with the longest of them.

    The life of an episode in a row: `begin` with state 0; then for every step `act` before the environment
    moves, since it might change the action, and `observe` after; `finish` hands the episode out.

    Args:
        observation_space: Observations of one environment.
        action_space: Actions of one environment.
        num_envs: Number of rows.
        info_keys: Entries of the infos to keep.

    Raises:
        TypeError: A space has elements that are not arrays of one shape.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        num_envs: int = 1,
        info_keys: Iterable[str] = (),
    ) -> None:
        self._observations = _Columns("observation", observation_space, num_envs, FIRST_CAPACITY)
        self._actions = _Columns("action", action_space, num_envs, FIRST_CAPACITY)
        self._rewards = np.empty((num_envs, FIRST_CAPACITY))
        self._infos: dict[str, list[list[Any]]] = {key: [[] for _ in range(num_envs)] for key in info_keys}
        self._reset_infos: list[dict[str, np.ndarray]] = [{} for _ in range(num_envs)]
        self._lengths = [-1] * num_envs  # steps so far; -1 where no episode is open
        self._capacity = FIRST_CAPACITY

    def is_open(self, row: int) -> bool:
        """Whether an episode is under way in ``row``."""
        return self._lengths[row] >= 0

    def length(self, row: int) -> int:
        """Return the number of steps so far of the open episode in ``row``."""
        return self._lengths[row]

    def begin(self, row: int, observation: Tree, info: Mapping[str, Any]) -> None:
        """Open an episode with its first state; one that was open there is forgotten.

        Raises:
            ValueError: The observation does not fit its space, or an info is of a kind that cannot be kept.
        """
        self._lengths[row] = -1
        self._observations.write(row, 0, observation)
        self._reset_infos[row] = {
            key: _as_info(key, info[key], "reset") for key in self._infos if key in info
        }
        for values in self._infos.values():
            values[row].clear()
        self._lengths[row] = 0

    def require_continuation(self, row: int, observation: Tree) -> None:
        """Refuse an observation that is not the latest one of the open episode.

        Raises:
            ValueError: It is another, or does not fit its space.
        """
        difference = self._observations.difference(row, self._lengths[row], observation)
        if difference:
            raise ValueError(f"obs does not follow on the next_obs before: {difference}")

    def act(self, row: int, action: Tree) -> None:
        """Note the action of the step that comes; it counts once `observe` has seen the outcome.

        Raises:
            ValueError: The action does not fit its space; floats may be rounded.
        """
        length = self._lengths[row]
        if length + 1 >= self._capacity:
            self._grow()
        self._actions.write(row, length, action, rounding=True)

    def observe(self, row: int, reward: Any, observation: Tree, info: Mapping[str, Any]) -> None:
        """Add the outcome of the step to the open episode.

        Raises:
            ValueError: The observation does not fit its space, the reward is not a number, or an info is
                missing or cannot be kept. The episode stays as it was.
        """
        length = self._lengths[row]
        number = as_reward(reward, length)
        infos = {key: self._next_info(key, row, info) for key in self._infos}
        self._observations.write(row, length + 1, observation)
        self._rewards[row, length] = number
        for key, value in infos.items():
            self._infos[key][row].append(value)
        self._lengths[row] = length + 1

    def finish(self, row: int, *, terminated: bool, truncated: bool) -> Episode:
        """Close the open episode and return it, in memory of its own."""
        episode = self.copy(row, terminated=terminated, truncated=truncated)
        self._lengths[row] = -1
        return episode

    def copy(self, row: int, *, terminated: bool = False, truncated: bool = False) -> Episode:
        """Return the open episode as it is so far, in memory of its own."""
        length = self._lengths[row]
        return Episode(
            observations=self._observations.rows(row, length + 1),
            actions=self._actions.rows(row, length),
            rewards=self._rewards[row, :length].copy(),
            terminated=bool(terminated),
            truncated=bool(truncated),
            infos={key: np.stack(values[row]) for key, values in self._infos.items()},
            reset_info=self._reset_infos[row],
        )

    def resume(self, row: int, episode: Episode) -> None:
        """Open an episode that was copied while it was under way.

        Raises:
            ValueError: It does not fit the spaces, or lacks an info.
        """

        def at(tree: Tree, t: int) -> Tree:
            return map_tree(lambda leaf: leaf[t], tree)

        self.begin(row, at(episode.observations, 0), episode.reset_info)
        for t, reward in enumerate(episode.rewards):
            self.act(row, at(episode.actions, t))
            self.observe(row, reward, at(episode.observations, t + 1), at(episode.infos, t))

    def forget(self, row: int) -> None:
        """Close the open episode in ``row``, if there is one, and drop it."""
        self._lengths[row] = -1

    def _next_info(self, key: str, row: int, info: Mapping[str, Any]) -> np.ndarray:
        length, earlier = self._lengths[row], self._infos[key][row]
        if not isinstance(info, Mapping) or key not in info:
            has = sorted(info) if isinstance(info, Mapping) else info
            raise ValueError(f"info has no {key!r} at step {length}; it has {has}")
        value = _as_info(key, info[key], f"step {length}")
        if earlier and _kind(value) != _kind(earlier[0]):
            raise ValueError(
                f"info {key!r} must keep its shape and kind within an episode, "
                f"got {_kind(earlier[0])} and then {_kind(value)} at step {length}"
            )
        return value

    def _grow(self) -> None:
        self._capacity *= 2
        self._observations.grow(self._capacity)
        self._actions.grow(self._capacity)
        self._rewards = _grown(self._rewards, self._capacity)


class _Columns:
    """The leaves of one space, each as an array (rows, capacity, ...)."""

    def __init__(self, name: str, space: spaces.Space[Any], rows: int, capacity: int) -> None:
        self._name = name
        self._space = space
        self._leaves: list[tuple[Path, str, tuple[int, ...], np.dtype[Any]]] = []
        self._arrays: list[np.ndarray] = []
        for path, leaf in leaf_spaces(space).items():
            shape, dtype = leaf.shape or (), np.dtype(leaf.dtype)
            self._leaves.append((path, path_name((name, *path)), shape, dtype))
            self._arrays.append(np.empty((rows, capacity, *shape), dtype))

    def write(self, row: int, t: int, tree: Tree, *, rounding: bool = False) -> None:
        """Copy a tree to ``t``.

        Raises:
            ValueError: A leaf is missing, or does not fit its space.
        """
        for array, value in zip(self._arrays, self._values(t, tree, rounding=rounding), strict=True):
            array[row, t] = value

    def difference(self, row: int, t: int, tree: Tree) -> str:
        """Say where a tree differs from the one at ``t``, or return an empty text.

        Raises:
            ValueError: A leaf is missing, or does not fit its space.
        """
        values = self._values(t, tree, rounding=False)
        for (_, name, _, dtype), array, value in zip(self._leaves, self._arrays, values, strict=True):
            if not np.array_equal(array[row, t], value, equal_nan=dtype.kind == "f"):
                return f"{name} is {value}, was {array[row, t]}"
        return ""

    def _values(self, t: int, tree: Tree, *, rounding: bool) -> list[np.ndarray]:
        return [
            as_leaf(
                f"{name} at step {t}",
                leaf_at(tree, path, self._name, f"at step {t}"),
                shape,
                dtype,
                rounding=rounding,
            )
            for path, name, shape, dtype in self._leaves
        ]

    def rows(self, row: int, count: int) -> Tree:
        return self._tree([array[row, :count].copy() for array in self._arrays])

    def grow(self, capacity: int) -> None:
        self._arrays = [_grown(array, capacity) for array in self._arrays]

    def _tree(self, arrays: list[Any]) -> Tree:
        paths = (path for path, *_ in self._leaves)
        return build_tree(self._space, dict(zip(paths, arrays, strict=True)))


def _grown(array: np.ndarray, capacity: int) -> np.ndarray:
    larger = np.empty((len(array), capacity, *array.shape[2:]), array.dtype)
    larger[:, : array.shape[1]] = array
    return larger


def as_reward(reward: Any, step: int) -> float:
    """Return a reward as a float.

    Raises:
        ValueError: It is not one number.
    """
    try:
        number = np.asarray(reward)
    except (TypeError, ValueError, RuntimeError):
        number = np.asarray(None)
    if number.shape != () or number.dtype.kind not in "biuf":
        raise ValueError(f"reward must be one number, got {reward!r} at step {step}")
    return float(number)


def _as_info(key: str, value: Any, where: str) -> np.ndarray:
    """Return a copy of an info.

    Raises:
        ValueError: It is neither numbers nor strings.
    """
    try:
        array = np.array(value)
    except (TypeError, ValueError, RuntimeError):
        array = np.array(None)
    if array.dtype.kind not in "biufUS":
        raise ValueError(f"info {key!r} must be numbers or strings of one shape, got {value!r} at {where}")
    return array


def _kind(value: np.ndarray) -> str:
    """Return what the values of one info have in common."""
    return f"{'strings' if value.dtype.kind in 'US' else 'numbers'} of shape {value.shape}"
