"""EpisodeStorage: the memory of a replay buffer. It stores complete episodes and gathers their steps.

Steps are numbered as they come, and so are states. An episode has one state more than steps, so step i, which
belongs to the e-th episode of all, begins in state i + e.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.replay.goals.selection import draw_below
from her_wrappers.replay.sampling.windows import Windows
from her_wrappers.replay.storage.ring import Ring
from her_wrappers.replay.storage.steps import Records, Steps, before_and_after, same_goals

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from her_wrappers.recording.episodes import Episodes
    from her_wrappers.replay.sampling.draws import Draw
    from her_wrappers.replay.storage.encoded_episodes import EncodedEpisodes
    from her_wrappers.replay.storage.infos import InfoLayout
    from her_wrappers.replay.storage.step_layout import StepLayout
    from her_wrappers.trees import Path

FIRST_SEGMENTS = 64
"""Segments there is room for before their ring grows."""


class Oldest(NamedTuple):
    """Numbers of the oldest step, and of the episode and the segment that it is in."""

    step: int
    episode: int
    segment: int


class EpisodeStorage:
    """Complete episodes, first in, first out, at most ``buffer_size`` steps of them.

    Args:
        layout: Of the records.
        buffer_size: Steps to hold.
        infos: The infos to keep.

    Raises:
        MemoryError: There is not so much memory.

    Attributes:
        where: Where the records are, for messages.
    """

    where = ""

    def __init__(self, layout: StepLayout, buffer_size: int, infos: InfoLayout) -> None:
        self._layout = layout
        self._buffer_size = buffer_size
        self._infos = infos
        self._place = np.int32 if buffer_size < 2**31 else np.int64
        self._episode_end = 0
        self._begin(0)

    def clear(self) -> None:
        """Drop all episodes and allocate anew; indices go on.

        Raises:
            MemoryError: There is not so much memory; all stays as it was.
        """
        self._begin(self._steps.end)
        self._infos.dtype = None

    def _begin(self, first_index: int) -> None:
        layout, before = self._layout, self._layout.shared
        try:
            layout.share(set())
            states = self._new_states(first_index + self._episode_end)
            steps = self._new_ring(self._buffer_size, first_index, segment=self._place)
            segments = self._new_ring(FIRST_SEGMENTS, segment=layout.segment, desired=layout.desired)
        except MemoryError:
            layout.share(before)
            raise
        self._states, self._steps, self._segments = states, steps, segments
        self._first_episode = self._episode_end

    @property
    def first_index(self) -> int:
        """Number of the oldest step."""
        return self._steps.first

    @property
    def num_steps(self) -> int:
        """Steps stored."""
        return len(self._steps)

    @property
    def num_episodes(self) -> int:
        """Episodes stored."""
        return self._episode_end - self._first_episode

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return self._states.nbytes + self._segments.nbytes + self._steps.nbytes

    def start(self, index: int, shared: set[Path]) -> None:
        """Number the steps of an empty storage from ``index``; store these leaves as achieved goals alone."""
        self._share(shared)
        self._steps.restart(index)
        self._states.restart(index + self._first_episode)

    def lengths(self) -> np.ndarray:
        """Return the steps of each episode, oldest first."""
        rows = self._segments.positions(np.arange(self._segments.first, self._segments.end))
        segments = self._segments.take("segment", rows)
        lengths: np.ndarray = segments["length"][np.diff(segments["episode"], prepend=-1) != 0]
        return lengths

    def encode(self, episodes: Episodes) -> list[EncodedEpisodes]:
        """Bring episodes into the form in which they are stored, in parts of at most ``buffer_size`` steps.

        Raises:
            ValueError: They lie outside the spaces, lack an info, or have a reward that is not finite.
        """
        parts = [self._layout.encode(part) for part in episodes.split(self._buffer_size)]
        self._share(self._layout.sharable_in(episodes))
        return parts

    def append(self, episodes: EncodedEpisodes) -> None:
        """Store episodes of at most ``buffer_size`` steps, evicting the oldest ones as far as needed.

        Raises:
            MemoryError: There is not so much memory; nothing is stored or evicted.
        """
        if episodes.infos is not None and episodes.infos.dtype != self._infos.dtype:
            fit = self._steps.widen_column if self.num_steps else self._steps.add_column
            fit("info", episodes.infos.dtype)
            self._infos.dtype = episodes.infos.dtype
        oldest = self._oldest_after(self._steps.end + episodes.num_steps - self._buffer_size)
        self._make_room(oldest, episodes.num_states, len(episodes.segments))
        self._evict_before(oldest)
        segments = episodes.segments
        segments["episode"] += self._episode_end
        segments["first_index"] += self._steps.end
        segments["end"] += self._steps.end
        places = self._segments.places(self._segments.end + episodes.segment_of_step)
        columns = {"segment": places.astype(self._place)}
        if episodes.infos is not None:
            columns["info"] = episodes.infos
        self._steps.append(**columns)
        self._segments.append(segment=segments, desired=episodes.desired)
        for there, here in self._states.reserve(episodes.num_states):
            self._write_states(episodes, there, here)
        self._episode_end += len(episodes.last_steps)

    def between(self, before: Any, after: Any) -> Any:
        """Return the (2, B) positions of states before and after steps."""
        return np.stack([before, after])

    def windows(self, left: np.ndarray, n_steps: int) -> Windows:
        """Return windows of up to ``n_steps`` steps, of which there are so many (B,) left."""
        return Windows(left, n_steps)

    def there(self, values: np.ndarray) -> Any:
        """Return values where the records are."""
        return values

    def send(self, draw: Draw) -> Draw:
        """Bring what batches are gathered by, and what is handed out with them, to where the records are."""
        return draw

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draw numbers of steps uniformly, with replacement."""
        numbers = draw_below(self.num_steps, count, rng)
        numbers += self._steps.first
        return numbers

    def locate(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the places of the segments of steps, the segments, and the positions of their states."""
        # `take` wants int64 and would make them of others each time.
        places = self._steps.take("segment", self._steps.positions(index)).astype(np.int64)
        segments = self._segments.take("segment", places)
        return places, segments, self._states.positions(index + segments["episode"])

    def take(self, numbers: Any, states: Any, desired: Records) -> Steps:
        """Copy steps out that lie between states at these (2, B) positions, with these desired goals."""
        records = self._states.take("record", states)
        infos = self._steps.take("info", self._steps.positions(numbers)) if self._infos.keys else None
        return Steps(numbers, records, desired, infos)

    def read(self, numbers: np.ndarray) -> Steps:
        """Copy steps out as they were recorded."""
        places, _, states = self.locate(numbers)
        recorded = self.desired_goals(np.zeros(0, np.int64), places)
        return self.take(numbers, before_and_after(states), recorded)

    def states_after(self, index: np.ndarray) -> np.ndarray:
        """Return the positions of the states that steps led to."""
        return self._states.positions(index + 1 + self._segments_of(index)["episode"])

    def achieved_goals(self, states: Any) -> Any:
        """Return the goals achieved in the states at these positions, as plain bytes."""
        return self._states.take_starts("record", self._layout.goal.itemsize, states)

    def same_goals(self, states: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether the goals achieved in the states at these positions are those at others, row by row."""
        goals = (self.achieved_goals(rows) for rows in (states, others))
        return same_goals(*(np.ndarray(len(rows), self._layout.goal, rows) for rows in goals))

    def desired_goals(self, sources: Any, places: Any) -> Records:
        """Return the desired goals of steps, in memory of their own.

        Args:
            sources: (C,) positions of the states that supply the goals of the first steps.
            places: (B - C,) places of the segments of the others, which keep theirs.

        Returns:
            (2, B) goals before and after the steps.
        """
        achieved, recorded = self.achieved_goals(sources), self._segments.take_bytes("desired", places)
        count = len(sources)
        desired = np.empty((2, count + len(places)), achieved.dtype)
        desired[:, :count] = achieved
        desired[:, count:] = np.ndarray((len(places), 2), achieved.dtype, recorded).T
        return np.ndarray(desired.shape, self._layout.goal, desired)

    def verify(self) -> None:
        """Check that the rings agree with each other.

        Raises:
            RuntimeError: They do not.
        """
        index = np.arange(self._steps.first, self._steps.end)
        places = self._steps.take_range("segment", self._steps.first, self._steps.end)
        numbers = self._segments.numbers(places)
        segments = self._segments.column("segment")[self._segments.places(numbers)]
        t = index - segments["first_index"]
        lengths = segments["length"][t == 0]
        episodes = np.repeat(np.arange(len(lengths)), lengths.clip(0, self._buffer_size))
        begins = np.repeat(np.cumsum(lengths) - lengths, lengths.clip(0, self._buffer_size))
        agreement = {
            "the lengths": np.array_equal(segments["length"], lengths[episodes]),
            "the steps": np.array_equal(t, np.arange(len(begins)) - begins),
            "the numbers": np.array_equal(segments["episode"], self._first_episode + episodes),
            "the segments": np.array_equal(
                np.unique(numbers), np.arange(self._segments.first, self._segments.end)
            ),
            "the ends of the segments": np.array_equal(
                segments["end"], self._steps.first + np.searchsorted(numbers, numbers, side="right")
            ),
            "the order of the segments": (np.diff(numbers) >= 0).all(),
            "the count": len(lengths) == self.num_episodes and len(index) <= self._buffer_size,
            "the states": self._states.first == self._steps.first + self._first_episode
            and self._states.end == self._steps.end + self._episode_end,
        }
        for what, agrees in agreement.items():
            if not agrees:
                raise RuntimeError(f"the buffer is corrupted: {what} of its episodes do not agree")

    def _segments_of(self, index: np.ndarray) -> np.ndarray:
        return self.locate(index)[1]

    def _share(self, sharable: set[Path]) -> None:
        """Store the leaves that are the achieved goal in all episodes, the new ones too, no second time.

        Raises:
            MemoryError: There is not so much memory; all stays as it was.
        """
        layout, before = self._layout, self._layout.shared
        if sharable == before:
            return
        try:
            if not self.num_steps:
                layout.share(sharable)
                self._states = self._new_states(self._states.first)
            elif not before <= sharable:
                layout.share(before & sharable)
                self._states.widen_column("record", layout.record)
                layout.part_ways(self._states.column("record"), before - sharable)
        except MemoryError:
            layout.share(before)
            raise

    def _new_states(self, first: int) -> Ring:
        """Return room for the records of ``buffer_size`` steps of episodes of 32 steps or more.

        Raises:
            MemoryError: There is not so much memory.
        """
        room = self._buffer_size + self._buffer_size // 32 + 1
        try:
            return self._new_ring(room, first, record=self._layout.record)
        except (MemoryError, ValueError) as error:  # the latter for more than NumPy can address
            gigabytes = room * self._layout.record.itemsize / 2**30
            raise MemoryError(
                f"{self.where}buffer_size={self._buffer_size} needs {gigabytes:.1f} GiB, which cannot be "
                "had; make it smaller"
            ) from error

    def _new_ring(self, capacity: int, first: int = 0, **columns: DTypeLike) -> Ring:
        return Ring(capacity, first, **columns)

    def _write_states(self, episodes: EncodedEpisodes, there: slice, here: slice) -> None:
        """Write some of the states of episodes to rows of the ring."""
        episodes.write(self._states.column("record"), there.start, here)

    def _oldest_after(self, index: int) -> Oldest:
        """Return what is the oldest without the episodes that begin before this number of a step."""
        if index <= self._steps.first:
            return Oldest(self._steps.first, self._first_episode, self._segments.first)
        last = self._segments.column("segment")[self._steps.row("segment", index - 1)]
        episode, first_index, length, _ = last.item()
        end = first_index + length
        first_segment = self._segments.end
        if end < self._steps.end:
            first_segment = int(self._segments.numbers(self._steps.row("segment", end)))
        return Oldest(end, episode + 1, first_segment)

    def _evict_before(self, oldest: Oldest) -> None:
        """Drop the episodes before the one that is to be the oldest."""
        self._first_episode = oldest.episode
        self._steps.drop_before(oldest.step)
        self._states.drop_before(oldest.step + oldest.episode)
        self._segments.drop_before(oldest.segment)

    def _make_room(self, oldest: Oldest, num_states: int, num_segments: int) -> None:
        """Grow the rings that are too small for what stays and what comes."""
        needed = self._states.end - oldest.step - oldest.episode + num_states
        if needed > self._states.capacity:
            # T steps take T + 1 states, so twice as many states as steps always do.
            room = max(needed, self._states.capacity * 5 // 4)
            self._states.grow(min(room, 2 * self._buffer_size))
        needed = self._segments.end - oldest.segment + num_segments
        if needed > self._segments.capacity:
            self._grow_segments(max(needed, self._segments.capacity * 5 // 4))

    def _grow_segments(self, capacity: int) -> None:
        table, steps = self._steps.column("segment"), np.arange(self._steps.first, self._steps.end)
        numbers = self._segments.numbers(table[self._steps.places(steps)])
        self._segments.grow(capacity)
        table[self._steps.places(steps)] = self._segments.places(numbers)
