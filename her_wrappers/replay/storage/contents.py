"""Contents: what a buffer holds, read back as the episodes that were added."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from her_wrappers.recording.episodes import Episodes
from her_wrappers.trees import concatenate_trees, copy_tree, map_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.recording.episode import Episode
    from her_wrappers.replay.storage.episode_storage import EpisodeStorage
    from her_wrappers.replay.storage.step_layout import StepLayout

PART_BYTES = 2**23
"""About so much is read at once."""

MOST_PARTS = 256
"""There are no more of them: large buffers are read in larger parts."""


class StoredEpisodes(NamedTuple):
    """Some of the episodes that a buffer holds.

    Attributes:
        episodes: They, in memory of their own, with float32 rewards.
        other_reason: (n,) bool, whether something else than the goal terminated each.
    """

    episodes: Episodes
    other_reason: np.ndarray

    def copies(self) -> Iterator[Episode]:
        """Return the episodes, each in memory of its own."""
        for episode in self.episodes:
            yield replace(
                episode,
                observations=copy_tree(episode.observations),
                actions=copy_tree(episode.actions),
                rewards=episode.rewards.astype(np.float64),
                infos=copy_tree(episode.infos),
            )


class Contents:
    """The episodes that a storage held when this was made, oldest first, in parts that are small beside it.

    Args:
        storage: Where they are.
        layout: Of the storage.
    """

    def __init__(self, storage: EpisodeStorage, layout: StepLayout) -> None:
        self._storage = storage
        self._layout = layout
        self._lengths = storage.lengths()
        self._starts = storage.first_index + np.cumsum(self._lengths) - self._lengths
        row = layout.record.itemsize + layout.segment.itemsize
        steps = max(1, PART_BYTES // row, storage.num_steps // MOST_PARTS)
        part = (self._starts - storage.first_index) // steps
        self._begins = np.append(np.flatnonzero(np.diff(part, prepend=-1)), len(part))

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self._begins) - 1

    def read(self, number: int) -> StoredEpisodes | None:
        """Return one part, less the episodes that have been evicted; None if none is left."""
        begin, end = self._begins[number : number + 2]
        begin = max(begin, int(np.searchsorted(self._starts, self._storage.first_index)))
        return self._read(int(begin), int(end)) if begin < end else None

    def _read(self, begin: int, end: int) -> StoredEpisodes:
        lengths = self._lengths[begin:end]
        numbers = self._starts[begin] + np.arange(lengths.sum())
        steps = self._storage.read(numbers)
        observations, actions, rewards, next_observations, terminated, truncated = self._layout.parts(steps)
        last = np.cumsum(lengths) - 1
        final = map_tree(lambda leaf: leaf[last], next_observations)
        every = concatenate_trees("observations", [observations, final])
        # final states stand behind all others so far
        order = np.insert(np.arange(len(numbers)), last + 1, len(numbers) + np.arange(len(last)))
        infos = {} if steps.infos is None else {key: steps.infos[key] for key in self._layout.infos.keys}
        episodes = Episodes(
            observations=map_tree(lambda leaf: leaf[order], every),
            actions=copy_tree(actions),  # views would keep all that was read
            rewards=rewards.copy(),
            lengths=lengths,
            terminated=terminated[last],
            truncated=truncated[last],
            infos=infos,
        )
        return StoredEpisodes(episodes, steps.records[0]["other_reason"][last])
