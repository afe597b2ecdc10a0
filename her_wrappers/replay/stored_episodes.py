"""Episodes read from the memory of a buffer, and their arrays in files.

The arrays of a file are those of `Episodes`, leaf by leaf, independent of the layout of the memory.
Observations that equal the achieved goal in all states are not written. A desired goal is written once for
all consecutive states that have it, with the number of these states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np

from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.byte_rows import row_changes
from her_wrappers.spaces import SpaceSpec
from her_wrappers.trees import concatenate_trees, copy_tree, map_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.files.reading import ArrayFile
    from her_wrappers.replay.storage import EpisodeStorage
    from her_wrappers.trees import Path, Tree

BLOCK_BYTES = 2**23
"""Approximate number of bytes that are read at once."""

MAX_BLOCKS = 256
"""Maximum number of blocks; larger buffers have larger blocks."""

FLAGS = ("terminated", "truncated", "other_reason")
"""Names of the arrays of flags in files since version 0.1, with one flag per episode."""

GOAL_COUNTS = "desired_goal_lasts"
"""Name of the array with the number of states that have each desired goal."""


class StoredEpisodes(NamedTuple):
    """Episodes from a buffer.

    Attributes:
        episodes: The episodes, in memory of their own. Rewards are float32, except in open episodes.
        goal_independent: (n,) bool, which of them terminated independently of their goal.
    """

    episodes: Episodes
    goal_independent: np.ndarray


class EpisodeReader:
    """Reads the episodes that a storage has when the reader is made, oldest first, block by block.

    Args:
        storage: The storage.
    """

    def __init__(self, storage: EpisodeStorage) -> None:
        self._storage = storage
        layout, index = storage.memory.layout, storage.memory.index
        self._lengths = index.lengths()
        self._starts = index.first.step + np.cumsum(self._lengths) - self._lengths
        steps = max(1, BLOCK_BYTES // (layout.record_dtype.itemsize + 32), index.num_steps // MAX_BLOCKS)
        block = (self._starts - index.first.step) // steps
        self._begins = np.append(np.flatnonzero(np.diff(block, prepend=-1)), len(block))

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._begins) - 1

    def read(self, block: int) -> StoredEpisodes | None:
        """Return the episodes of a block that have not been evicted; None if all have been evicted."""
        begin, end = self._begins[block : block + 2]
        first = self._storage.memory.index.first.step
        begin = max(begin, int(np.searchsorted(self._starts, first)))
        return self._read(int(begin), int(end)) if begin < end else None

    def _read(self, begin: int, end: int) -> StoredEpisodes:
        layout, lengths = self._storage.memory.layout, self._lengths[begin:end]
        serials = self._starts[begin] + np.arange(lengths.sum())
        steps = self._storage.read(serials)
        observations, actions, rewards, next_observations, terminated, truncated = layout.transitions(steps)
        last = np.cumsum(lengths) - 1
        final = map_tree(lambda leaf: leaf[last], next_observations)
        states = concatenate_trees("observations", [observations, final])
        # The final states are at the end of ``states``; the order puts each after its episode.
        order = np.insert(np.arange(len(serials)), last + 1, len(serials) + np.arange(len(last)))
        infos = {} if steps.infos is None else {key: steps.infos[key] for key in layout.info_keys}
        episodes = Episodes(
            observations=map_tree(lambda leaf: leaf[order], states),
            actions=copy_tree(actions),  # views would keep the whole records in memory
            rewards=rewards.copy(),
            lengths=lengths,
            terminated=terminated[last],
            truncated=truncated[last],
            infos=infos,
        )
        return StoredEpisodes(episodes, steps.records[0]["goal_independent"][last])


@dataclass(frozen=True)
class EpisodeArrays:
    """The arrays of episodes in a file.

    Attributes:
        observations: Leaves of an observation.
        actions: Leaves of an action.
        info_keys: Infos that are stored.
        deduplicated: Paths of observations that equal the achieved goal, and are not written.
    """

    observations: SpaceSpec
    actions: SpaceSpec
    info_keys: Sequence[str]
    deduplicated: frozenset[Path] = frozenset()

    def from_episodes(self, stored: StoredEpisodes) -> dict[str, np.ndarray]:
        """Return the arrays of some episodes, by name."""
        episodes = stored.episodes
        flags = zip(FLAGS, (episodes.terminated, episodes.truncated, stored.goal_independent), strict=True)
        arrays = {"rewards": episodes.rewards, "lengths": episodes.lengths, **dict(flags)}
        for leaf in self.actions:
            arrays[_name("actions", leaf.path)] = leaf.find(episodes.actions, "")
        for key in self.info_keys:
            arrays[_name("infos", (key,))] = episodes.infos[key]
        leaves = {leaf.path: leaf.find(episodes.observations, "") for leaf in self.observations}
        desired = [values for path, values in leaves.items() if _is_desired(path)]
        changed = row_changes(desired)  # bit by bit, so that NaN is restored too
        begins = episodes.ends[:-1] + np.arange(len(episodes))
        if changed is not None:
            begins = np.union1d(begins, changed.nonzero()[0] + 1)
        arrays[GOAL_COUNTS] = np.diff(begins, append=episodes.num_steps + len(episodes))
        for path, values in leaves.items():
            if path not in self.deduplicated:
                arrays[_name("observations", path)] = values[begins] if _is_desired(path) else values
        return arrays

    def read(self, file: ArrayFile, prefix: str) -> StoredEpisodes:
        """Read some episodes.

        Args:
            file: The file.
            prefix: Beginning of the names of the arrays of these episodes.

        Raises:
            CorruptFileError: An array is missing or damaged.
            ValueError: The arrays do not form valid episodes.
        """
        names = ("rewards", "lengths", *FLAGS, GOAL_COUNTS)
        rewards, lengths, terminated, truncated, goal_independent, counts = (
            file.read(prefix + name) for name in names
        )
        steps, states = rewards.size, rewards.size + lengths.size
        if goal_independent.shape != lengths.shape or goal_independent.dtype != np.bool_:
            raise ValueError(
                f"array other_reason must have {lengths.size} bools, "
                f"got {goal_independent.dtype} of shape {goal_independent.shape}"
            )
        actions = [
            _read(file, _name(f"{prefix}actions", leaf.path), (steps, *leaf.shape)) for leaf in self.actions
        ]
        episodes = Episodes(
            observations=self._read_observations(file, prefix, states, counts),
            actions=self.actions.build(actions),
            rewards=rewards,
            lengths=lengths,
            terminated=terminated,
            truncated=truncated,
            infos={key: file.read(_name(f"{prefix}infos", (key,))) for key in self.info_keys},
        )
        return StoredEpisodes(episodes, goal_independent)

    def _read_observations(self, file: ArrayFile, prefix: str, states: int, counts: np.ndarray) -> Tree:
        if counts.dtype.kind != "i" or counts.ndim != 1 or not ((counts > 0) & (counts <= states)).all():
            raise ValueError("each desired goal must belong to at least one state")
        if counts.sum() != states:
            raise ValueError(f"the desired goals must belong to {states} states in total, got {counts.sum()}")
        leaves: dict[Path, Any] = {}
        for leaf in self.observations:
            if leaf.path not in self.deduplicated:
                rows = len(counts) if _is_desired(leaf.path) else states
                values = _read(file, _name(f"{prefix}observations", leaf.path), (rows, *leaf.shape))
                leaves[leaf.path] = np.repeat(values, counts, axis=0) if _is_desired(leaf.path) else values
        for path in self.deduplicated:
            leaves[path] = leaves["achieved_goal",]
        return self.observations.build_from(leaves)


def _name(name: str, path: Path) -> str:
    return "/".join([name, *(quote(str(key), safe="") for key in path)])


def _is_desired(path: Path) -> bool:
    return path[0] == "desired_goal"


def _read(file: ArrayFile, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Read an array that must have this shape."""
    if name in file.arrays and file.arrays[name].shape != shape:
        raise ValueError(f"array {name!r} must have shape {shape}, got {file.arrays[name].shape}")
    return file.read(name)
