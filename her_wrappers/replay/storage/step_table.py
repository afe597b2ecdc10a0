"""StepTable: which segment, and so which episode, each stored step is of.

Steps are numbered as they come, and so are segments and episodes. A step leads to the place of its segment,
which has the number of the episode, where that begins, and the desired goals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike

    from her_wrappers.replay.storage.encoded_episodes import EncodedEpisodes
    from her_wrappers.replay.storage.ring import Ring
    from her_wrappers.replay.storage.step_layout import StepLayout

FIRST_SEGMENTS = 64
"""Segments there is room for before their ring grows."""


class Oldest(NamedTuple):
    """Numbers of the oldest step, and of the episode and the segment that it is in."""

    step: int
    episode: int
    segment: int

    @property
    def state(self) -> int:
        """Number of the state in which the step begins, see `EpisodeStorage`."""
        return self.step + self.episode


class StepTable:
    """The steps of complete episodes, first in, first out, and their segments.

    Args:
        layout: Of the segments.
        capacity: Steps there is room for.
        first: Numbers of the step and the episode that will come first.
        make_ring: Makes a `Ring`.

    Raises:
        MemoryError: There is not so much memory.

    Attributes:
        steps: A row a step: the place of its segment, and infos.
        segments: A row a segment: `StepLayout.segment`, and its desired goals.
        first_episode: Number of the oldest episode.
        episode_end: Number of the episode that will come next.
    """

    def __init__(
        self, layout: StepLayout, capacity: int, first: tuple[int, int], make_ring: Callable[..., Ring]
    ) -> None:
        first_step, first_episode = first
        self._place = np.int32 if capacity < 2**31 else np.int64
        self.steps = make_ring(capacity, first_step, segment=self._place)
        self.segments = make_ring(FIRST_SEGMENTS, segment=layout.segment, desired=layout.desired)
        self.first_episode = self.episode_end = first_episode

    @property
    def oldest(self) -> Oldest:
        """What is the oldest."""
        return Oldest(self.steps.first, self.first_episode, self.segments.first)

    @property
    def state_end(self) -> int:
        """Number of the state that will come next."""
        return self.steps.end + self.episode_end

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return self.segments.nbytes + self.steps.nbytes

    def lengths(self) -> np.ndarray:
        """Return the steps of each episode, oldest first."""
        segments = self.segments.take_range("segment", self.segments.first, self.segments.end)
        lengths: np.ndarray = segments["length"][np.diff(segments["episode"], prepend=-1) != 0]
        return lengths

    def segments_of(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of the segments of steps, and the segments."""
        # `take` wants int64 and would make them of others each time.
        places = self.steps.take("segment", self.steps.positions(index)).astype(np.int64)
        return places, self.segments.take("segment", places)

    def fit_infos(self, dtype: DTypeLike) -> None:
        """Make room for infos of a dtype, wider than that before if there was one.

        Raises:
            MemoryError: There is not so much memory; nothing changes.
        """
        fit = self.steps.widen_column if len(self.steps) else self.steps.add_column
        fit("info", dtype)

    def oldest_after(self, index: int) -> Oldest:
        """Return what is the oldest without the episodes that begin before this number of a step."""
        if index <= self.steps.first:
            return self.oldest
        last = self.segments.column("segment")[self.steps.row("segment", index - 1)]
        episode, first_index, length, _ = last.item()
        end = first_index + length
        first_segment = self.segments.end
        if end < self.steps.end:
            first_segment = int(self.segments.numbers(self.steps.row("segment", end)))
        return Oldest(end, episode + 1, first_segment)

    def drop_before(self, oldest: Oldest) -> None:
        """Drop what is before what is to be the oldest."""
        self.first_episode = oldest.episode
        self.steps.drop_before(oldest.step)
        self.segments.drop_before(oldest.segment)

    def make_room(self, oldest: Oldest, num_segments: int) -> None:
        """Grow the ring of segments if it is too small for those that stay and so many that come.

        Raises:
            MemoryError: There is not so much memory; nothing changes.
        """
        needed = self.segments.end - oldest.segment + num_segments
        if needed > self.segments.capacity:
            self._grow_segments(max(needed, self.segments.capacity * 5 // 4))

    def append(self, episodes: EncodedEpisodes) -> None:
        """Add episodes; there must be room."""
        segments = episodes.segments
        segments["episode"] += self.episode_end
        segments["first_index"] += self.steps.end
        segments["end"] += self.steps.end
        places = self.segments.places(self.segments.end + episodes.segment_of_step)
        columns: dict[str, Any] = {"segment": places.astype(self._place)}
        if episodes.infos is not None:
            columns["info"] = episodes.infos
        self.steps.append(**columns)
        self.segments.append(segment=segments, desired=episodes.desired)
        self.episode_end += len(episodes.last_steps)

    def verify(self) -> None:
        """Check that steps and segments agree with each other.

        Raises:
            RuntimeError: They do not.
        """
        index = np.arange(self.steps.first, self.steps.end)
        numbers = self.segments.numbers(self.steps.take_range("segment", self.steps.first, self.steps.end))
        segments = self.segments.column("segment")[self.segments.places(numbers)]
        t = index - segments["first_index"]
        lengths = segments["length"][t == 0]
        most = self.steps.capacity  # of what was overwritten, lengths may be anything
        episodes = np.repeat(np.arange(len(lengths)), lengths.clip(0, most))
        begins = np.repeat(np.cumsum(lengths) - lengths, lengths.clip(0, most))
        ends = self.steps.first + np.searchsorted(numbers, numbers, side="right")
        stored = np.arange(self.segments.first, self.segments.end)
        require_agreement({
            "the lengths": np.array_equal(segments["length"], lengths[episodes]),
            "the steps": np.array_equal(t, np.arange(len(begins)) - begins),
            "the numbers": np.array_equal(segments["episode"], self.first_episode + episodes),
            "the segments": np.array_equal(np.unique(numbers), stored),
            "the ends of the segments": np.array_equal(segments["end"], ends),
            "the order of the segments": bool((np.diff(numbers) >= 0).all()),
            "the count": len(lengths) == self.episode_end - self.first_episode and len(index) <= most,
        })

    def _grow_segments(self, capacity: int) -> None:
        table, steps = self.steps.column("segment"), np.arange(self.steps.first, self.steps.end)
        numbers = self.segments.numbers(table[self.steps.places(steps)])
        self.segments.grow(capacity)
        table[self.steps.places(steps)] = self.segments.places(numbers)


def require_agreement(agreement: dict[str, bool]) -> None:
    """Say which of some parts of the memory do not agree.

    Raises:
        RuntimeError: There is such a part.
    """
    for what, agrees in agreement.items():
        if not agrees:
            raise RuntimeError(f"the buffer is corrupted: {what} of its episodes do not agree")
