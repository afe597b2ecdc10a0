"""OpenEpisode: the episode in progress of one environment, kept until it ends.

Values are copied the moment they arrive, so environments that reuse their arrays are recorded correctly. They
are appended to byte arrays, which costs half of writing a row of a NumPy array, and which become the finished
episode's own memory without another copy.
"""

from __future__ import annotations

import copy
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from her_wrappers.recording.episode import Episode, unchecked
from her_wrappers.recording.leaves import TransitionLeaves
from her_wrappers.recording.values import as_info, as_reward, kind_of
from her_wrappers.trees import map_tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gymnasium import spaces

    from her_wrappers.recording.leaves import Leaf, Leaves
    from her_wrappers.trees import Tree


class OpenEpisode:
    """Room for one episode, which grows with it.

    Its life: `begin` with state 0; then for every step `act` before the environment moves, since it might
    change the action, and `observe` after; `finish` hands the episode out.

    Args:
        observation_space: Observations of the environment.
        action_space: Its actions.
        info_keys: Entries of the infos to keep.

    Raises:
        TypeError: A space has elements that are not arrays of one shape.

    Attributes:
        length: Steps so far; -1 where no episode is open.
        leaves: Of both spaces.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        info_keys: Iterable[str] = (),
    ) -> None:
        self.length = -1
        self.leaves = TransitionLeaves.of(observation_space, action_space)
        self._observations = _Rows(self.leaves.observations)
        self._actions = _Rows(self.leaves.actions, rounding=True)
        self._acted = False
        self._rewards = array("d")
        self._infos: dict[str, list[np.ndarray]] = {key: [] for key in info_keys}
        self._reset_info: dict[str, np.ndarray] = {}

    def begin(self, observation: Tree, info: Mapping[str, Any]) -> None:
        """Open an episode with its first state; one that was open is forgotten.

        Raises:
            ValueError: The observation does not fit its space, or an info is of a kind that cannot be kept.
        """
        self.length = -1
        self._observations.clear()
        self._actions.clear()
        self._acted = False
        self._rewards = array("d")
        self._observations.append(0, observation)
        self._reset_info = {key: as_info(key, info[key], "at reset") for key in self._infos if key in info}
        for values in self._infos.values():
            values.clear()
        self.length = 0

    def require_continuation(self, observation: Tree) -> None:
        """Refuse an observation that is not the latest one.

        Raises:
            ValueError: It is another, or does not fit its space.
        """
        difference = self._observations.difference(self.length, observation)
        if difference:
            raise ValueError(f"obs does not follow on the next_obs before: {difference}")

    def act(self, action: Tree) -> None:
        """Note the action of the step that comes; it counts once `observe` has seen the outcome.

        Raises:
            ValueError: The action does not fit its space; floats may be rounded.
        """
        if self._acted:  # by a step that failed
            self._actions.cut(self.length)
        self._actions.append(self.length, action)
        self._acted = True

    def observe(self, reward: Any, observation: Tree, info: Mapping[str, Any]) -> None:
        """Add the outcome of the step.

        Raises:
            ValueError: The observation does not fit its space, the reward is not a number, or an info is
                missing or cannot be kept. The episode stays as it was.
        """
        length = self.length
        number = reward if type(reward) is float else as_reward(reward, length)
        infos: Iterable[tuple[list[np.ndarray], np.ndarray]] = ()
        if self._infos:
            infos = [(values, self._next_info(key, info)) for key, values in self._infos.items()]
        self._observations.append(length + 1, observation)
        self._rewards.append(number)
        for values, value in infos:
            values.append(value)
        self.length = length + 1
        self._acted = False

    def finish(self, *, terminated: bool, truncated: bool) -> Episode:
        """Close the episode and return it, in memory of its own."""
        length, self.length = self.length, -1
        return unchecked(
            Episode,
            observations=self._observations.release(length + 1),
            actions=self._actions.release(length),
            rewards=np.frombuffer(self._rewards),
            terminated=bool(terminated),
            truncated=bool(truncated),
            infos={key: np.stack(values) for key, values in self._infos.items()},
            reset_info=self._reset_info,
        )

    def copy(self) -> Episode:
        """Return the episode as it is so far, in memory of its own; it stays open."""
        return copy.deepcopy(self).finish(terminated=False, truncated=False)

    def resume(self, episode: Episode) -> None:
        """Open an episode that was copied while it was under way.

        Raises:
            ValueError: It does not fit the spaces, or lacks an info.
        """

        def at(tree: Tree, t: int) -> Tree:
            return map_tree(lambda leaf: leaf[t], tree)

        self.begin(at(episode.observations, 0), episode.reset_info)
        for t, reward in enumerate(episode.rewards):
            self.act(at(episode.actions, t))
            self.observe(reward, at(episode.observations, t + 1), at(episode.infos, t))

    def forget(self) -> None:
        """Close the episode, if one is open, and drop it."""
        self.length = -1

    def _next_info(self, key: str, info: Mapping[str, Any]) -> np.ndarray:
        where, earlier = f"at step {self.length}", self._infos[key]
        if not isinstance(info, Mapping) or key not in info:
            has = sorted(info) if isinstance(info, Mapping) else info
            raise ValueError(f"info has no {key!r} {where}; it has {has}")
        value = as_info(key, info[key], where)
        if earlier and kind_of(value) != kind_of(earlier[0]):
            raise ValueError(
                f"info {key!r} must keep its shape and kind within an episode, "
                f"got {kind_of(earlier[0])} and then {kind_of(value)} {where}"
            )
        return value


class _Rows:
    """The leaves of one space, each as the bytes of its rows, one after the other.

    Args:
        leaves: Those.
        rounding: Whether floats may be rounded to shorter ones.
    """

    def __init__(self, leaves: Leaves, *, rounding: bool = False) -> None:
        self._leaves = leaves
        self._rounding = rounding
        self._columns: list[tuple[str | None, np.dtype[Any], tuple[int, ...], Leaf, bytearray]] = []
        self.clear()

    def clear(self) -> None:
        """Begin anew, in new memory: a finished episode keeps the old."""
        self._columns = [(leaf.key, leaf.dtype, leaf.shape, leaf, bytearray()) for leaf in self._leaves]

    def append(self, t: int, tree: Tree) -> None:
        """Copy a tree to row ``t``, which is the next one.

        Raises:
            ValueError: A leaf is missing, or does not fit its space; no row is added.
        """
        try:
            for key, dtype, shape, leaf, column in self._columns:
                try:
                    value = tree if key is None else tree[key]
                except (KeyError, IndexError, TypeError):
                    value = None
                if type(value) is not ndarray or value.dtype != dtype or value.shape != shape:
                    where = f"at step {t}"
                    value = leaf.check(leaf.find(tree, where), where, rounding=self._rounding)
                try:
                    column.extend(value)
                except TypeError:  # not contiguous
                    column.extend(value.tobytes())
        except BaseException:
            self.cut(t)
            raise

    def cut(self, count: int) -> None:
        """Keep the first ``count`` rows."""
        for *_, leaf, column in self._columns:
            del column[count * leaf.nbytes :]

    def difference(self, t: int, tree: Tree) -> str:
        """Say where a tree differs from row ``t``, or return an empty text.

        Raises:
            ValueError: A leaf is missing, or does not fit its space.
        """
        where = f"at step {t}"
        for *_, leaf, column in self._columns:
            value = leaf.check(leaf.find(tree, where), where, rounding=False)
            row = bytes(column[t * leaf.nbytes : (t + 1) * leaf.nbytes])
            if row != value.tobytes():
                was = np.frombuffer(row, leaf.dtype).reshape(leaf.shape)
                if not np.array_equal(was, value, equal_nan=leaf.dtype.kind == "f"):
                    return f"{leaf.name} is {value}, was {was}"
        return ""

    def release(self, count: int) -> Tree:
        """Return the tree of (count, ...) arrays over the memory kept here; `clear` before going on."""
        return self._leaves.tree([
            np.ndarray((count, *shape), dtype, column) for _, dtype, shape, _, column in self._columns
        ])
