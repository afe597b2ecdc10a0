"""EpisodeColumns: how some episodes of a buffer become named arrays of a file, and come back.

The arrays are those of `Episodes`, leaf by leaf, whatever the layout of the buffer's memory. A leaf that is
the achieved goal throughout is not written, and of desired goals, which stay the same for many states, each
is written once, with the number of states that it lasts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.arrays import changes
from her_wrappers.replay.storage.contents import StoredEpisodes
from her_wrappers.spaces import build_tree, leaf_spaces
from her_wrappers.trees import leaf_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from gymnasium import spaces

    from her_wrappers.files.reading import ArrayFile
    from her_wrappers.trees import Path, Tree

RUNS = "desired_goal_lasts"
"""Name of the array that says for how many states each desired goal lasts."""


class EpisodeColumns:
    """The names that the arrays of episodes have in a file.

    Args:
        observation_space: Observations of one environment.
        action_space: Actions of one environment.
        info_keys: Entries of the infos that are kept.
        shared: Leaves of observations that are the achieved goal, and not written.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        info_keys: Sequence[str],
        shared: Collection[Path] = (),
    ) -> None:
        self._observation_space = observation_space
        self._action_space = action_space
        self._info_keys = info_keys
        self._shared = shared

    def take_apart(self, part: StoredEpisodes) -> dict[str, np.ndarray]:
        """Return the arrays of some episodes, by name."""
        episodes, names = part.episodes, ("rewards", "lengths", "terminated", "truncated")
        arrays = {name: getattr(episodes, name) for name in names}
        arrays["other_reason"] = part.other_reason
        for path in leaf_spaces(self._action_space):
            arrays[_name("actions", path)] = leaf_at(episodes.actions, path, "actions", "")
        for key in self._info_keys:
            arrays[_name("infos", (key,))] = episodes.infos[key]
        leaves = {
            path: leaf_at(episodes.observations, path, "observations", "")
            for path in leaf_spaces(self._observation_space)
            if path not in self._shared
        }
        starts = episodes.ends[:-1] + np.arange(len(episodes))
        begins = _run_begins([leaf for path, leaf in leaves.items() if _is_desired(path)], starts)
        arrays[RUNS] = np.diff(begins, append=len(episodes.rewards) + len(episodes))
        for path, leaf in leaves.items():
            arrays[_name("observations", path)] = leaf[begins] if _is_desired(path) else leaf
        return arrays

    def read(self, file: ArrayFile, prefix: str) -> StoredEpisodes:
        """Read some episodes.

        Args:
            file: The file.
            prefix: What stands before the names.

        Raises:
            CorruptFileError: An array is missing or damaged.
            ValueError: The arrays make no episodes.
        """
        names = ("rewards", "lengths", "terminated", "truncated", "other_reason", RUNS)
        columns: dict[str, Any] = {name: file.read(f"{prefix}{name}") for name in names}
        other_reason, lasts = columns.pop("other_reason"), columns.pop(RUNS)
        steps, count = columns["rewards"].size, columns["lengths"].size
        if other_reason.shape != (count,) or other_reason.dtype != np.bool_:
            raise ValueError(f"other_reason must be {count} bools, got {other_reason.dtype}")
        episodes = Episodes(
            observations=self._read_observations(file, prefix, steps + count, lasts),
            actions=self._read_actions(file, prefix, steps),
            infos={key: file.read(_name(f"{prefix}infos", (key,))) for key in self._info_keys},
            **columns,
        )
        return StoredEpisodes(episodes, other_reason)

    def _read_observations(self, file: ArrayFile, prefix: str, rows: int, lasts: np.ndarray) -> Tree:
        """Read the observations.

        Raises:
            ValueError: An array has another shape than the space and ``rows``, or goals last otherwise.
        """
        if lasts.dtype.kind != "i" or lasts.ndim != 1 or not ((lasts > 0) & (lasts <= rows)).all():
            raise ValueError("goals must last for a number of states")
        if lasts.sum() != rows:
            raise ValueError(f"goals must last for {rows} states, got {lasts.sum()}")
        leaves = {}
        for path, leaf in leaf_spaces(self._observation_space).items():
            if path in self._shared:
                continue
            count = len(lasts) if _is_desired(path) else rows
            values = _read(file, _name(f"{prefix}observations", path), (count, *(leaf.shape or ())))
            leaves[path] = np.repeat(values, lasts, axis=0) if _is_desired(path) else values
        for path in self._shared:
            leaves[path] = leaves["achieved_goal",]
        return build_tree(self._observation_space, leaves)

    def _read_actions(self, file: ArrayFile, prefix: str, rows: int) -> Tree:
        leaves = {
            path: _read(file, _name(f"{prefix}actions", path), (rows, *(leaf.shape or ())))
            for path, leaf in leaf_spaces(self._action_space).items()
        }
        return build_tree(self._action_space, leaves)


def _name(name: str, path: Path) -> str:
    return "/".join([name, *(quote(str(key), safe="") for key in path)])


def _is_desired(path: Path) -> bool:
    return path[0] == "desired_goal"


def _run_begins(leaves: Iterable[np.ndarray], starts: np.ndarray) -> np.ndarray:
    """Return the states in which the goal is not that of the state before, or the episode is another.

    Args:
        leaves: (T + n, ...) arrays of the goals.
        starts: (n,) first states of the episodes.
    """
    changed = changes(leaves)  # to the last bit, for so goals are to come back, NaN too
    return starts if changed is None else np.union1d(starts, changed.nonzero()[0] + 1)


def _read(file: ArrayFile, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Read an array of a known shape.

    Raises:
        ValueError: It has another.
    """
    if name in file.arrays and file.arrays[name].shape != shape:
        raise ValueError(f"array {name!r} must have shape {shape}, got {file.arrays[name].shape}")
    return file.read(name)
