"""EpisodeStorage: the memory of a replay buffer. It stores complete episodes and gathers their steps.

Steps are numbered as they come, and so are states. An episode has one state more than steps, so step i, which
belongs to the e-th episode of all, begins in state i + e.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.replay.arrays import draw_below, same_rows
from her_wrappers.replay.storage.draw import Located
from her_wrappers.replay.storage.ring import Ring
from her_wrappers.replay.storage.step_table import StepTable, require_agreement
from her_wrappers.replay.storage.steps import Records, Steps, before_and_after

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from her_wrappers.recording.episodes import Episodes
    from her_wrappers.replay.storage.draw import Draw
    from her_wrappers.replay.storage.encoded_episodes import EncodedEpisodes
    from her_wrappers.replay.storage.step_layout import StepLayout
    from her_wrappers.trees import Path


class EpisodeStorage:
    """Complete episodes, first in, first out, at most ``buffer_size`` steps of them.

    Args:
        layout: Of the records.
        buffer_size: Steps to hold.

    Raises:
        MemoryError: There is not so much memory.

    Attributes:
        where: Where the records are, for messages.
    """

    where = ""

    def __init__(self, layout: StepLayout, buffer_size: int) -> None:
        self._layout = layout
        self._buffer_size = buffer_size
        self._begin(0, 0)

    def clear(self) -> None:
        """Drop all episodes and allocate anew; indices go on.

        Raises:
            MemoryError: There is not so much memory; all stays as it was.
        """
        self._begin(self._table.steps.end, self._table.episode_end)
        self._layout.infos.dtype = None

    def _begin(self, first_index: int, first_episode: int) -> None:
        layout, before = self._layout, self._layout.shared
        try:
            layout.share(set())
            states = self._new_states(first_index + first_episode)
            table = StepTable(layout, self._buffer_size, (first_index, first_episode), self._new_ring)
        except MemoryError:
            layout.share(before)
            raise
        self._states, self._table = states, table

    @property
    def first_index(self) -> int:
        """Number of the oldest step."""
        return self._table.steps.first

    @property
    def num_steps(self) -> int:
        """Steps stored."""
        return len(self._table.steps)

    @property
    def num_episodes(self) -> int:
        """Episodes stored."""
        return self._table.episode_end - self._table.first_episode

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return self._states.nbytes + self._table.nbytes

    def start(self, index: int, shared: set[Path]) -> None:
        """Number the steps of an empty storage from ``index``; store these leaves as achieved goals alone."""
        self._share(shared)
        self._table.steps.restart(index)
        self._states.restart(self._table.state_end)

    def lengths(self) -> np.ndarray:
        """Return the steps of each episode, oldest first."""
        return self._table.lengths()

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
        table = self._table
        if episodes.infos is not None and episodes.infos.dtype != self._layout.infos.dtype:
            table.fit_infos(episodes.infos.dtype)
            self._layout.infos.dtype = episodes.infos.dtype
        oldest = table.oldest_after(table.steps.end + episodes.num_steps - self._buffer_size)
        self._make_room(oldest.state, episodes.num_states)
        table.make_room(oldest, len(episodes.segments))
        table.drop_before(oldest)
        self._states.drop_before(oldest.state)
        table.append(episodes)
        for there, here in self._states.reserve(episodes.num_states):
            self._write_states(episodes, there, here)

    def between(self, before: Any, after: Any) -> Any:
        """Return the (2, B) positions of states before and after steps."""
        return np.stack([before, after])

    def there(self, values: np.ndarray) -> Any:
        """Return values where the records are."""
        return values

    def send(self, draw: Draw) -> Draw:
        """Bring what batches are gathered by, and what is handed out with them, to where the records are."""
        return draw

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draw numbers of steps uniformly, with replacement."""
        numbers = draw_below(self.num_steps, count, rng)
        numbers += self._table.steps.first
        return numbers

    def locate(self, index: np.ndarray) -> Located:
        """Return where steps stand."""
        places, segments = self._table.segments_of(index)
        return Located(index, places, segments, self._states.positions(index + segments["episode"]))

    def take(self, numbers: Any, states: Any, desired: Records) -> Steps:
        """Copy steps out that lie between states at these (2, B) positions, with these desired goals."""
        records, rows = self._states.take("record", states), self._table.steps
        infos = rows.take("info", rows.positions(numbers)) if self._layout.infos.keys else None
        return Steps(numbers, records, desired, infos)

    def read(self, numbers: np.ndarray) -> Steps:
        """Copy steps out as they were recorded."""
        steps = self.locate(numbers)
        recorded = self.desired_goals(np.zeros(0, np.int64), steps.places)
        return self.take(numbers, before_and_after(steps.states), recorded)

    def states_after(self, index: np.ndarray) -> np.ndarray:
        """Return the positions of the states that steps led to."""
        return self._states.positions(index + 1 + self._table.segments_of(index)[1]["episode"])

    def achieved_goals(self, states: Any) -> Any:
        """Return the goals achieved in the states at these positions, as plain bytes."""
        return self._states.take_starts("record", self._layout.goal.itemsize, states)

    def same_goals(self, states: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether the goals achieved in the states at these positions are those at others, row by row."""
        goals = (self.achieved_goals(rows) for rows in (states, others))
        records = [np.ndarray(len(rows), self._layout.goal, rows) for rows in goals]
        return same_rows(*([each[name] for name in each.dtype.names or ()] for each in records))

    def desired_goals(self, sources: Any, places: Any) -> Records:
        """Return the desired goals of steps, in memory of their own.

        Args:
            sources: (C,) positions of the states that supply the goals of the first steps.
            places: (B - C,) places of the segments of the others, which keep theirs.

        Returns:
            (2, B) goals before and after the steps.
        """
        achieved, recorded = self.achieved_goals(sources), self._table.segments.take_bytes("desired", places)
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
        table, states = self._table, self._states
        table.verify()
        span = table.oldest.state, table.state_end
        require_agreement({"the states": (states.first, states.end) == span})

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

    def _make_room(self, oldest: int, num_states: int) -> None:
        """Grow the ring of states if it is too small for those from ``oldest`` on and so many that come."""
        needed = self._states.end - oldest + num_states
        if needed > self._states.capacity:
            # T steps take T + 1 states, so twice as many states as steps always do.
            room = max(needed, self._states.capacity * 5 // 4)
            self._states.grow(min(room, 2 * self._buffer_size))
