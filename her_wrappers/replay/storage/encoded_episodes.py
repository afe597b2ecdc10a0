"""EncodedEpisodes: checked episodes, field by field as a storage keeps them, ready to be written to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from her_wrappers.replay.storage.steps import Steps, before_and_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.replay.storage.step_layout import StepLayout

    Columns = Sequence[tuple[str, np.ndarray]]


BLOCK_BYTES = 2**18


class EncodedEpisodes(NamedTuple):
    """n episodes with T steps in all.

    Attributes:
        layout: Of the records. What it shares may change until they are written.
        of_states: Fields of a record with their (T + n, ...) values, those too that may be shared.
        of_steps: (T,) the rest of it, what was done and what it brought; the last states of episodes have
            none.
        segments: (M,) what stays the same for many steps; episodes and indices are counted from 0.
        desired: (M,) their desired goals.
        segment_of_step: (T,) which of them each step belongs to.
        state_of_step: (T,) which state it begins in.
        last_steps: (n,) the last step of each episode.
        infos: (T,) infos, where any are kept.
    """

    layout: StepLayout
    of_states: Columns
    of_steps: np.ndarray
    segments: np.ndarray
    desired: np.ndarray
    segment_of_step: np.ndarray
    state_of_step: np.ndarray
    last_steps: np.ndarray
    infos: np.ndarray | None

    @property
    def num_steps(self) -> int:
        """Steps of all episodes together, T."""
        return len(self.state_of_step)

    @property
    def num_states(self) -> int:
        """States of all episodes together, T + n."""
        return len(self.state_of_step) + len(self.last_steps)

    @property
    def terminated(self) -> np.ndarray:
        """(T,) bool, whether a step ended the task."""
        return self.of_steps["terminated"]

    @property
    def other_reason(self) -> np.ndarray:
        """(T,) bool, whether it did so for a reason that is not its goal; may be written to."""
        return self.of_steps["other_reason"]

    @property
    def t(self) -> np.ndarray:
        """(T,) steps within their episodes."""
        t: np.ndarray = np.arange(self.num_steps) - self.segments["first_index"][self.segment_of_step]
        return t

    def write(self, memory: np.ndarray, begin: int, states: slice) -> None:
        """Write some of the states to consecutive records of a storage, from ``memory[begin]`` on."""
        # In blocks that stay in the cache until the last of their fields is written.
        size = max(1, BLOCK_BYTES // memory.itemsize)
        for first in range(states.start, states.stop, size):
            block = slice(first, min(first + size, states.stop))
            there = begin + first - states.start
            self._write_block(memory[there : there + block.stop - block.start], block)

    def _write_block(self, records: np.ndarray, states: slice) -> None:
        for field, values in self._stored_of_states():
            records[field] = values[states]
        steps, places = self._steps_in(states)
        bytes_of_steps = np.ndarray(self.num_steps, self.layout.step_bytes, self.of_steps)
        self.layout.steps_of(records)[places] = bytes_of_steps[steps]

    def _steps_in(self, states: slice) -> tuple[slice, slice | np.ndarray]:
        """Return the steps that begin in some of the states, and in which of those each does."""
        if len(self.last_steps) == 1:  # step and state have one number, and slices cost half
            steps = slice(states.start, min(states.stop, self.num_steps))
            return steps, slice(0, steps.stop - steps.start)
        begin, end = self.state_of_step.searchsorted((states.start, states.stop))
        return slice(begin, end), self.state_of_step[begin:end] - states.start

    def take(self, steps: np.ndarray) -> Steps:
        """Copy steps out, as from a storage."""
        states = self.state_of_step[steps]
        records = np.zeros((2, len(steps)), self.layout.record)
        for field, values in self._stored_of_states():
            records[field] = values[before_and_after(states)]
        self.layout.steps_of(records[0])[:] = self.of_steps[steps].view(self.layout.step_bytes)
        desired = self.desired.take(self.segment_of_step[steps])["goals"].T
        infos = None if self.infos is None else self.infos[steps]
        return Steps(steps, records, desired, infos)

    def _stored_of_states(self) -> Columns:
        names = self.layout.record.names or ()
        return [(field, values) for field, values in self.of_states if field in names]
