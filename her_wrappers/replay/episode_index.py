"""EpisodeIndex: the stored steps and episodes, and the episode, segment and states of each step.

Steps, states, episodes and segments are numbered in the order in which they are added. Such a serial number
is never used again. An episode has one state more than steps, so step i of episode e begins in state i + e. A
segment is a run of steps of one episode under the same desired goal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.replay.byte_rows import ByteRing
from her_wrappers.replay.goal_selection import uniform_below

if TYPE_CHECKING:
    from collections.abc import Sequence

SEGMENT = np.dtype([(name, np.int64) for name in ("episode", "first_step", "length", "end")])
"""Serial numbers of the episode and of its first step, number of steps of the episode, and serial number of
the step after the last step of the segment."""

INITIAL_SEGMENTS = 64
"""Number of segments for which memory is allocated at first."""


class EvictionPoint(NamedTuple):
    """Serial numbers of the oldest step that stays, and of the episode and segment that it belongs to.

    The end of an index has the same type: the serial numbers of the next step, episode and segment to add.
    """

    step: int
    episode: int
    segment: int


class SampledIndices(NamedTuple):
    """Indices of the B rows of a batch, relabeled rows first. Several batches have one more leading axis.

    Arrays are NumPy arrays, except that arrays of type Any are on the device of the storage. On a torch
    device, slots replace the offsets. For several batches, the two numbers are lists.

    Attributes:
        host_serials: (B,) serial numbers of the steps.
        serials: (B,) the same, on the device of the storage.
        states: (2, B) offsets of the states before and after the steps.
        segment_slots: (B,) slots of the segments that supply the goals of the rows after ``num_achieved``.
        episode: (B,) serial numbers of the first steps of their episodes.
        goal_states: (B,) offsets of the states that supply the goals of the first ``num_achieved`` rows.
        goal_index: (B,) serial numbers of the steps that supply new goals; any value for original rows.
        component: (B,) component of the mixture of each row.
        is_relabeled: (B,) bool, whether the row gets a new goal.
        num_relabeled: Number of rows that get a new goal.
        num_achieved: Number of rows whose new goal is an achieved goal; the goals of all rows after them are
            desired goals.
        steps_left: (B,) maximum number of steps in each row's window, or None without n-step returns.
    """

    host_serials: np.ndarray
    serials: Any
    states: Any
    segment_slots: Any
    episode: np.ndarray
    goal_states: Any
    goal_index: np.ndarray
    component: np.ndarray
    is_relabeled: Any
    num_relabeled: Any
    num_achieved: Any
    steps_left: np.ndarray | None


@dataclass(frozen=True, eq=False)
class PackedEpisodes:
    """Records of n validated episodes with T steps in total.

    Attributes:
        of_states: Pairs of the name of a field and its values in all states, (T + n, ...).
        steps: (T,) records of the actions, rewards and flags; the last state of an episode has none.
        segments: (M, 4) int64, the fields of `SEGMENT` records; episodes and steps are counted from 0.
        desired: (M,) records of the desired goals of the segments.
        segment_of_step: (T,) segment of each step.
        state_of_step: (T,) state in which each step begins.
        num_episodes: Number of episodes, n.
        infos: (T,) records of the infos, or None if no infos are stored.
    """

    of_states: Sequence[tuple[str, np.ndarray]]
    steps: np.ndarray
    segments: np.ndarray
    desired: np.ndarray
    segment_of_step: np.ndarray
    state_of_step: np.ndarray
    num_episodes: int
    infos: np.ndarray | None

    @property
    def num_steps(self) -> int:
        """Number of steps, T."""
        return len(self.steps)

    @property
    def num_states(self) -> int:
        """Number of states, T + n."""
        return len(self.steps) + self.num_episodes


class StepRefs(NamedTuple):
    """Stored steps with their segments and states, for goal selection and gathering.

    Attributes:
        serials: (n,) serial numbers of the steps.
        segment_slots: (n,) slots of their segments.
        segments: (n,) their segments, as `SEGMENT` records.
        states: (n,) offsets of the states in which they begin, see `EpisodeIndex.state_origin`.
    """

    serials: np.ndarray
    segment_slots: np.ndarray
    segments: np.ndarray
    states: np.ndarray

    def take(self, rows: np.ndarray) -> StepRefs:
        """Return some of the steps."""
        return StepRefs(*[column[rows] for column in self])


class EpisodeIndex:
    """Serial numbers of the stored steps, states, episodes and segments. Each change makes a new index.

    Args:
        first: Oldest step, with its episode and segment.
        end: Serial numbers after those of the newest step, episode and segment.
        segment_slots: Ring buffer with the slot in ``segments`` of each step's segment.
        segments: Ring buffer of `SEGMENT` records.
        state_capacity: Number of states for which there is memory.

    Attributes:
        first_state: Serial number of the state in which the oldest step begins.
        end_state: Serial number after that of the newest state.
        num_steps: Number of stored steps.
        num_episodes: Number of stored episodes.
        step_origin: Serial number from which the offsets of steps are counted.
        state_origin: Serial number from which the offsets of states are counted.
    """

    def __init__(
        self,
        first: EvictionPoint,
        end: EvictionPoint,
        segment_slots: ByteRing,
        segments: ByteRing,
        state_capacity: int,
    ) -> None:
        self.first = first
        self.end = end
        self.segment_slots = segment_slots
        self.segments = segments
        self.state_capacity = state_capacity
        self.num_steps = end.step - first.step
        self.num_episodes = end.episode - first.episode
        self.first_state = first.step + first.episode
        self.end_state = end.step + end.episode
        # Counted from the last multiple of the capacity, stored rows have offsets in [-capacity, capacity),
        # with which NumPy's `take` finds them without a division.
        self.step_origin = end.step - end.step % segment_slots.capacity
        self.state_origin = self.end_state - self.end_state % state_capacity

    @classmethod
    def empty(cls, start: EvictionPoint, num_steps: int, state_capacity: int) -> EpisodeIndex:
        """Return an index without steps.

        Args:
            start: Serial numbers of the step, episode and segment that will be added first.
            num_steps: Number of steps for which memory is allocated.
            state_capacity: Number of states for which there is memory.

        Raises:
            MemoryError: Not enough memory.
        """
        slots = ByteRing(num_steps, np.int32 if num_steps < 2**31 else np.int64)
        return cls(start, start, slots, ByteRing(INITIAL_SEGMENTS, SEGMENT), state_capacity)

    @property
    def nbytes(self) -> int:
        """Size of the memory in bytes."""
        return self.segment_slots.nbytes + self.segments.nbytes

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Sample ``count`` serial numbers of stored steps uniformly, with replacement."""
        serials = uniform_below(self.num_steps, count, rng)
        serials += self.first.step
        return serials

    def locate(self, serials: np.ndarray) -> StepRefs:
        """Return stored steps with their segments and states."""
        slots = np.ndarray(
            len(serials),
            self.segment_slots.dtype,
            self.segment_slots.memory.take(serials - self.step_origin, mode="wrap"),
        ).astype(np.int64)
        segments = np.ndarray(len(serials), SEGMENT, self.segments.memory.take(slots))
        states = serials + segments["episode"]
        states -= self.state_origin
        return StepRefs(serials, slots, segments, states)

    def lengths(self) -> np.ndarray:
        """Return the number of steps of each episode, oldest first."""
        segments = self.segments.take_range(self.first.segment, self.end.segment)
        lengths: np.ndarray = segments["length"][np.diff(segments["episode"], prepend=-1) != 0]
        return lengths

    def evicted(self, serial: int) -> EpisodeIndex:
        """Return the index without the episodes that begin before the step with this serial number.

        The result is always a new object, so that prefetched batches count as out of date.
        """
        return self._with_span(self._eviction_point(serial), self.end)

    def _eviction_point(self, serial: int) -> EvictionPoint:
        """Return the oldest step that stays if the episodes that begin before this step are evicted."""
        if serial <= self.first.step:
            return self.first
        slots = self.segment_slots.records(slice(None))
        segment = self.segments.records(slice(None))[slots[(serial - 1) % len(slots)]]
        episode, first_step, length, _ = segment.item()
        step = first_step + length
        if step == self.end.step:
            return self.end
        newest = self.end.segment - 1
        oldest = newest - (newest - int(slots[step % len(slots)])) % self.segments.capacity
        return EvictionPoint(step, episode + 1, oldest)

    def skipped(self, num_steps: int, num_episodes: int) -> EpisodeIndex:
        """Return an index without steps, whose next serial numbers are higher by these numbers."""
        step, episode, segment = self.end
        start = EvictionPoint(step + num_steps, episode + num_episodes, segment)
        return self._with_span(start, start)

    def _with_span(self, first: EvictionPoint, end: EvictionPoint) -> EpisodeIndex:
        return EpisodeIndex(first, end, self.segment_slots, self.segments, self.state_capacity)

    def with_state_capacity(self, capacity: int) -> EpisodeIndex:
        """Return the index with memory for another number of states."""
        return EpisodeIndex(self.first, self.end, self.segment_slots, self.segments, capacity)

    def with_room_for_segments(self, count: int) -> EpisodeIndex:
        """Return an index with memory for ``count`` more segments.

        Raises:
            MemoryError: Not enough memory.
        """
        needed = self.end.segment - self.first.segment + count
        capacity = max(needed, self.segments.capacity * 5 // 4)
        segments = self.segments.resized(self.first.segment, self.end.segment, capacity)
        slots = self.segment_slots.resized(self.first.step, self.end.step, self.segment_slots.capacity)
        steps = np.arange(self.first.step, self.end.step)
        old = self.segment_slots.take(steps % slots.capacity)
        slots.records(slice(None))[steps % slots.capacity] = self._segment_serials(old) % capacity
        return EpisodeIndex(self.first, self.end, slots, segments, self.state_capacity)

    def appended(self, packed: PackedEpisodes) -> EpisodeIndex:
        """Return the index with the packed episodes, for which there must be room.

        Only slots that are not in use are written, so this index stays valid.
        """
        step, episode, segment = self.end
        num_steps = len(packed.steps)
        segments = np.add(packed.segments, (episode, step, 0, step))
        self.segments.write(segment, segments.view(SEGMENT)[:, 0])
        slots = (segment + packed.segment_of_step) % self.segments.capacity
        self.segment_slots.write(step, slots.astype(self.segment_slots.dtype))
        end = EvictionPoint(step + num_steps, episode + packed.num_episodes, segment + len(segments))
        return self._with_span(self.first, end)

    def verify(self) -> None:
        """Check that steps, segments and episodes agree with each other.

        Raises:
            RuntimeError: Steps, segments and episodes are inconsistent.
        """
        serials = np.arange(self.first.step, self.end.step)
        slots = self.segment_slots.take(serials % self.segment_slots.capacity)
        in_range = (slots >= 0) & (slots < self.segments.capacity)
        segment_serials = self._segment_serials(np.where(in_range, slots, 0))
        segments = self.segments.take(segment_serials % self.segments.capacity)
        t = serials - segments["first_step"]
        lengths = segments["length"][t == 0]
        most = self.segment_slots.capacity  # overwritten lengths may have any value
        episodes = np.repeat(np.arange(len(lengths)), lengths.clip(0, most))
        begins = np.repeat(np.cumsum(lengths) - lengths, lengths.clip(0, most))
        ends = self.first.step + np.searchsorted(segment_serials, segment_serials, side="right")
        stored = np.arange(self.first.segment, self.end.segment)
        require_agreement({
            "the lengths": len(episodes) == len(serials)
            and np.array_equal(segments["length"], lengths[episodes]),
            "the steps": bool(in_range.all()) and np.array_equal(t, np.arange(len(begins)) - begins),
            "the numbers": np.array_equal(segments["episode"], self.first.episode + episodes),
            "the segments": np.array_equal(np.unique(segment_serials), stored),
            "the ends of the segments": np.array_equal(segments["end"], ends),
            "the order of the segments": bool((np.diff(segment_serials) >= 0).all()),
            "the count": len(lengths) == self.num_episodes and len(serials) <= most,
        })

    def _segment_serials(self, slots: np.ndarray) -> np.ndarray:
        """Return the serial numbers of the segments in these slots."""
        newest = self.end.segment - 1
        serials: np.ndarray = newest - (newest - slots.astype(np.int64)) % self.segments.capacity
        return serials


def require_agreement(agreement: dict[str, bool]) -> None:
    """Raise RuntimeError for the first entry that is False.

    Args:
        agreement: Whether a part of the data is consistent, by the name of the part for the message.

    Raises:
        RuntimeError: Parts of the memory disagree.
    """
    for name, agrees in agreement.items():
        if not agrees:
            raise RuntimeError(
                f"the buffer is corrupted: {name} of its episodes disagree with its other data; "
                "load a saved buffer"
            )
