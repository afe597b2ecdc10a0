"""EpisodeStorage: the memory of a replay buffer. It stores complete episodes and gathers their steps.

One immutable `StoredMemory` describes everything that is stored. Adding evicts (a new `StoredMemory`), writes
records to slots that are not in use, and then publishes them (another `StoredMemory`). So an interruption at
any moment leaves the storage as before the call, as after it, or without the evicted episodes.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.replay.byte_rows import ByteRing, Records, StoredSteps, ring_slices, same_rows
from her_wrappers.replay.episode_index import EpisodeIndex, EvictionPoint, PackedEpisodes, require_agreement
from her_wrappers.replay.layout import GOAL_FIELD, StepLayout
from her_wrappers.replay.n_step import NStepWindows
from her_wrappers.trees import concatenate_trees

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike

    from her_wrappers.recording.episodes import Episodes
    from her_wrappers.replay.episode_index import SampledIndices

BLOCK_BYTES = 2**18
"""Records are written in blocks of this size, which stay in the cache until their last field is written."""


@dataclass(frozen=True, eq=False)
class StoredMemory:
    """The stored records and their index.

    Attributes:
        layout: Dtypes of the records.
        index: Index of the stored steps.
        states: Ring of the records of states.
        desired: Ring of the desired goals of segments.
        infos: Ring of the infos of steps, or None if no infos are stored.
        last_added: Weak reference to the object that was added last, or None.
    """

    layout: StepLayout
    index: EpisodeIndex
    states: Any
    desired: Any
    infos: Any
    last_added: weakref.ref[Any] | None = None


class EpisodeStorage:
    """Complete episodes, first in, first out, with at most ``buffer_size`` steps.

    Args:
        layout: Dtypes of the records.
        buffer_size: Number of steps that can be stored.

    Attributes:
        memory: The stored records; a new object after every change.

    Raises:
        MemoryError: Not enough memory for ``buffer_size`` transitions.
    """

    location = ""
    """Where the memory is, in messages."""

    on_device = False
    """Whether the records are on a torch device."""

    def __init__(self, layout: StepLayout, buffer_size: int) -> None:
        self._buffer_size = buffer_size
        self.memory = self._empty_memory(layout, EvictionPoint(0, 0, 0))

    def clear(self) -> None:
        """Remove all episodes and allocate new memory; serial numbers continue.

        Raises:
            MemoryError: Not enough memory; nothing changes.
        """
        layout, index = self.memory.layout, self.memory.index
        empty = replace(layout, info_dtype=None, deduplicated=frozenset())
        self.memory = self._empty_memory(empty, index.end)

    def start_at(self, serial: int) -> None:
        """Set the serial number of the first step of a new storage, to which no episode was ever added."""
        self.memory = replace(self.memory, index=self.memory.index.skipped(serial, 0))

    @property
    def num_steps(self) -> int:
        """Number of stored steps."""
        return self.memory.index.num_steps

    @property
    def num_episodes(self) -> int:
        """Number of stored episodes."""
        return self.memory.index.num_episodes

    @property
    def nbytes(self) -> int:
        """Size of the memory in bytes."""
        memory = self.memory
        rings = memory.states, memory.desired, memory.infos
        of_rings = sum(ring.nbytes for ring in rings if ring is not None)
        return int(memory.index.nbytes + of_rings)

    def add(self, episodes: Episodes, goal_independent: np.ndarray, source: object = None) -> None:
        """Store validated episodes, and evict the oldest as far as needed.

        Args:
            episodes: Episodes, each of at most ``buffer_size`` steps. If the episodes have more steps in
                total, the first of them are not stored, but still use up serial numbers.
            goal_independent: (n,) bool, whether an episode terminated independently of its goal.
            source: The object that the episodes come from, for ``last_added``.

        Raises:
            MemoryError: Not enough memory; nothing is stored or evicted.
            ValueError: The common dtype of stored and new infos does not hold all their values; nothing is
                stored or evicted.
        """
        added = None if source is None else weakref.ref(source)
        memory = self.memory
        layout = self._layout_for(memory, episodes)
        _require_exact_infos(memory, layout, episodes)
        num_steps = len(episodes.rewards)
        if num_steps > self._buffer_size:
            skipped = int(episodes.ends.searchsorted(num_steps - self._buffer_size))
            packed = layout.pack(episodes[skipped:], goal_independent[skipped:])
            index = memory.index.skipped(int(episodes.ends[skipped]), skipped)
        else:
            packed = layout.pack(episodes, goal_independent)
            index = memory.index.evicted(memory.index.end.step + num_steps - self._buffer_size)
        room = self._with_room(layout, index, packed)
        self.memory = room  # evicts the oldest episodes, so that the slots written next are not in use
        self._write(packed)
        index = room.index.appended(packed)
        self.memory = StoredMemory(layout, index, room.states, room.desired, room.infos, added)

    def _layout_for(self, memory: StoredMemory, episodes: Episodes) -> StepLayout:
        """Return a layout that fits both validated episodes and the stored ones."""
        layout = memory.layout
        duplicates = layout.find_duplicates(episodes)
        if memory.index.num_steps:
            duplicates &= layout.deduplicated
        return layout.fitted_to(episodes, duplicates)

    def _with_room(self, layout: StepLayout, index: EpisodeIndex, packed: PackedEpisodes) -> StoredMemory:
        """Return the memory of the steps in ``index``, with room for the packed episodes.

        Raises:
            MemoryError: Not enough memory; nothing changes.
        """
        old = self.memory
        states, desired, infos = old.states, old.desired, old.infos
        segment, end = index.first.segment, index.end
        first_state, end_state = index.first_state, index.end_state
        if layout is not old.layout:
            states, infos = self._converted(layout, index)
        needed = end_state - first_state + packed.num_states
        if needed > states.capacity:
            # T steps have T + 1 states, so twice as many states as steps are always enough.
            capacity = min(max(needed, states.capacity * 5 // 4), 2 * self._buffer_size)
            states = states.resized(first_state, end_state, capacity)
            index = index.with_state_capacity(capacity)
        if end.segment - segment + len(packed.segments) > desired.capacity:
            index = index.with_room_for_segments(len(packed.segments))
            desired = desired.resized(segment, end.segment, index.segments.capacity)
        return StoredMemory(layout, index, states, desired, infos, old.last_added)

    def _converted(self, layout: StepLayout, index: EpisodeIndex) -> tuple[Any, Any]:
        """Return the rings of states and of infos for another layout.

        Raises:
            MemoryError: Not enough memory; nothing changes.
        """
        old, states, infos = self.memory.layout, self.memory.states, self.memory.infos
        if layout.deduplicated != old.deduplicated and not index.num_steps:
            states = self._new_ring(states.capacity, layout.record_dtype)
        elif layout.deduplicated != old.deduplicated:
            # Observations that are no longer deduplicated are equal to the achieved goals so far.
            new = set(layout.record_dtype.names or ()) - set(states.dtype.names)
            copied = dict.fromkeys(new, GOAL_FIELD)
            states = states.converted(index.first_state, index.end_state, layout.record_dtype, copied)
        if infos is None and layout.info_dtype is not None:
            infos = self._new_ring(self._buffer_size, layout.info_dtype)
        elif layout.info_dtype != old.info_dtype:
            infos = infos.converted(index.first.step, index.end.step, layout.info_dtype)
        return states, infos

    def _write(self, packed: PackedEpisodes) -> None:
        """Write the records of packed episodes to slots that are not in use; the index does not change."""
        memory = self.memory
        layout, index, states = memory.layout, memory.index, memory.states
        size = max(1, BLOCK_BYTES // states.dtype.itemsize)
        for slots, rows in ring_slices(index.end_state, packed.num_states, states.capacity):
            for first in range(slots.start, slots.stop, size):
                block = slice(first, min(first + size, slots.stop))
                begin = rows.start + first - slots.start
                states.fill(block, partial(layout.write, packed, begin))
        memory.desired.write(index.end.segment, packed.desired)
        if memory.infos is not None:
            memory.infos.write(index.end.step, packed.infos)

    def gather(self, serials: Any, states: Any, desired: Records) -> StoredSteps:
        """Return copies of stored steps.

        Args:
            serials: (B,) serial numbers of the steps.
            states: (2, B) offsets of the states before and after the steps.
            desired: (2, B) desired goals, see `desired_goals`.
        """
        memory = self.memory
        rows = memory.states.memory.take(states, mode="wrap")  # "wrap" skips checks: 3/4 of the time
        records = np.ndarray(rows.shape, memory.states.dtype, rows)
        if memory.infos is None:
            return StoredSteps(records, desired, None)
        return StoredSteps(records, desired, memory.infos.take(serials - memory.index.step_origin))

    def desired_goals(self, goal_states: Any, segment_slots: Any, num_new: int = 0) -> Records:
        """Return (2, C + D) desired goals before and after steps, in new memory.

        Args:
            goal_states: (C,) offsets of the states that supply the goals of the first steps.
            segment_slots: (D,) slots of the segments that supply the goals of the other steps.
            num_new: Number of the first of these D steps that are relabeled with the desired goal of a
                segment: the goal after the steps of the segment is then their goal before and after. The
                remaining steps keep both goals of their segments.
        """
        memory, layout = self.memory, self.memory.layout
        count = len(goal_states)
        rows = np.empty((2, count + len(segment_slots)), layout.goal_bytes)
        before, after = rows[0], rows[1]  # assigning both at once takes longer
        states = memory.states.memory  # the achieved goals are the first bytes of the records
        achieved = np.ndarray(len(states), layout.goal_bytes, states, 0, states.strides)
        before[:count] = after[:count] = achieved[goal_states]
        recorded = memory.desired.memory.take(segment_slots)
        rows[:, count:] = np.ndarray((len(recorded), 2), rows.dtype, recorded).T
        if num_new:
            before[count : count + num_new] = after[count : count + num_new]
        return np.ndarray(rows.shape, layout.goal_dtype, rows)

    def same_goals(self, states: np.ndarray, goal_states: np.ndarray, segments: np.ndarray) -> np.ndarray:
        """Return which achieved goals of states equal given goals, bit by bit, (n,) bool.

        Args:
            states: (n,) offsets of the states.
            goal_states: (C,) offsets of the states whose achieved goals are compared with the first C states.
            segments: (n - C,) slots of the segments whose desired goals, after their steps, are compared with
                the other states.
        """
        dtype = self.memory.layout.goal_dtype
        goals = self.desired_goals(states, segments[:0])[1], self.desired_goals(goal_states, segments)[1]
        return same_rows(*([each[name] for name in dtype.names or ()] for each in goals))

    def read(self, serials: np.ndarray) -> StoredSteps:
        """Return copies of steps as they were recorded, as NumPy arrays."""
        refs = self.memory.index.locate(serials)
        desired = self.desired_goals(serials[:0], refs.segment_slots)
        return self.gather(serials, np.stack([refs.states, refs.states + 1]), desired)

    def to_device(self, values: np.ndarray) -> Any:
        """Return the array unchanged, since the records are in host memory."""
        return values

    def filled(self, count: int, value: float) -> Any:
        """Return a (count,) float32 array filled with one value."""
        array = np.empty(count, np.float32)
        array.fill(value)  # `numpy.full` takes three times as long
        return array

    def indices_to_device(self, sampled: SampledIndices) -> SampledIndices:
        """Return the indices unchanged, since the records are in host memory."""
        return sampled

    def state_pairs(self, before: Any, after: Any) -> Any:
        """Return the (2, B) offsets of states, for `gather`."""
        return np.stack([before, after])

    def make_windows(self, steps_left: np.ndarray, n_steps: int) -> NStepWindows:
        """Return the windows of n steps that begin at sampled steps."""
        return NStepWindows(steps_left, n_steps)

    def verify(self) -> None:
        """Check that the records and their index are consistent.

        Raises:
            RuntimeError: The records and the index are inconsistent.
        """
        index, states, desired = self.memory.index, self.memory.states, self.memory.desired
        index.verify()
        span = index.end_state - index.first_state
        require_agreement({
            "the states": span <= states.capacity == index.state_capacity,
            "the goals": desired.capacity == index.segments.capacity,
        })

    def _empty_memory(self, layout: StepLayout, start: EvictionPoint) -> StoredMemory:
        """Return memory for ``buffer_size`` steps in episodes of 32 steps or more; shorter ones make it grow.

        Raises:
            MemoryError: Not enough memory.
        """
        capacity = self._buffer_size + self._buffer_size // 32 + 1
        try:
            states = self._new_ring(capacity, layout.record_dtype)
            index = EpisodeIndex.empty(start, self._buffer_size, capacity)
        except (MemoryError, ValueError) as error:  # ValueError: more than NumPy can address
            gigabytes = capacity * layout.record_dtype.itemsize / 2**30
            raise MemoryError(
                f"{self.location}buffer_size={self._buffer_size} needs {gigabytes:.1f} GiB, and there is not "
                "enough memory; use a smaller buffer_size"
            ) from error
        desired = self._new_ring(index.segments.capacity, layout.desired_dtype)
        return StoredMemory(layout, index, states, desired, None)

    def _new_ring(self, capacity: int, dtype: DTypeLike) -> Any:
        return ByteRing(capacity, dtype)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the stored rows only, so that a pickle of a large empty buffer is small."""
        memory = self.memory
        index, states, desired, infos = memory.index, memory.states, memory.desired, memory.infos
        steps = index.first.step, index.end.step
        segments = index.first.segment, index.end.segment
        spans = [
            (index.segment_slots, steps),
            (index.segments, segments),
            (states, (index.first_state, index.end_state)),
            (desired, segments),
            (infos, steps),
        ]
        rings = [
            None if ring is None else (ring.capacity, span[0], ring.take_range(*span)) for ring, span in spans
        ]
        return self.__dict__ | {"memory": (memory.layout, index.first, index.end, rings)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the rows, in memory of the same capacity as before."""
        self.__dict__.update(state)
        layout, first, end, rings = state["memory"]
        new_rings = [ByteRing, ByteRing, *[self._new_ring] * 3]
        restored: list[Any] = [
            None if saved is None else _restored(new_ring, *saved)
            for new_ring, saved in zip(new_rings, rings, strict=True)
        ]
        slots, segments, states, desired, infos = restored
        index = EpisodeIndex(first, end, slots, segments, states.capacity)
        self.memory = StoredMemory(layout, index, states, desired, infos)


def _restored(
    new_ring: Callable[[int, np.dtype[Any]], Any], capacity: int, first: int, rows: np.ndarray
) -> Any:
    """Return a ring that has the given rows from the serial number ``first`` on."""
    ring = new_ring(capacity, rows.dtype)
    ring.write(first, rows)
    return ring


def _require_exact_infos(memory: StoredMemory, layout: StepLayout, episodes: Episodes) -> None:
    """Raise ValueError if the dtypes of the layout change infos, such as large integers as floats."""
    for key, column in episodes.infos.items():
        dtype = layout.info_field(key)
        arrays = [np.empty((0, *column.shape[1:]), dtype), column]
        if memory.infos is not None and memory.layout.info_field(key) != dtype:
            index = memory.index
            arrays.append(memory.infos.take_range(index.first.step, index.end.step)[key])
        if any(array.dtype != dtype for array in arrays):
            concatenate_trees(f"infos/{key}", arrays)
