"""EncodedEpisodes: checked episodes, field by field as a storage keeps them, ready to be written to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from her_wrappers.replay.steps import Steps, before_and_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.replay.step_layout import StepLayout

    Columns = Sequence[tuple[str, np.ndarray]]


BLOCK_BYTES = 2**18


class EncodedEpisodes(NamedTuple):
    """n episodes with T steps in all.

    Attributes:
        layout: Of the records. What it shares may change until they are written.
        of_states: Fields of a record with their (T + n, ...) values, those too that may be shared.
        of_steps: Fields of it with their (T, ...) values; the last states of episodes have none.
        terminated: (T,) bool, whether a step ended the task.
        other_reason: (T,) bool, whether it did so for a reason that is not its goal; may be written to.
        segments: (M,) what stays the same for many steps; episodes and indices are counted from 0.
        desired: (M,) their desired goals.
        segment_of_step: (T,) which of them each step belongs to.
        state_of_step: (T,) which state it begins in.
        last_steps: (n,) the last step of each episode.
        infos: (T,) infos, where any are kept.
    """

    layout: StepLayout
    of_states: Columns
    of_steps: Columns
    terminated: np.ndarray
    other_reason: np.ndarray
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
        begin, end = self.state_of_step.searchsorted((states.start, states.stop))
        places = _as_slice(self.state_of_step[begin:end] - states.start)
        for field, values in self.of_steps:
            records[field][places] = values[begin:end]

    def take(self, steps: np.ndarray) -> Steps:
        """Copy steps out, as from a storage."""
        states = self.state_of_step[steps]
        records = np.zeros((2, len(steps)), self.layout.record)
        for field, values in self._stored_of_states():
            records[field] = values[before_and_after(states)]
        for field, values in self.of_steps:
            records[0][field] = values[steps]
        desired = self.desired.take(self.segment_of_step[steps])["goals"].T
        infos = None if self.infos is None else self.infos[steps]
        return Steps(steps, records, desired, infos)

    def _stored_of_states(self) -> Columns:
        names = self.layout.record.names or ()
        return [(field, values) for field, values in self.of_states if field in names]


def _as_slice(places: np.ndarray) -> np.ndarray | slice:
    """Return ascending places as a slice, if they are one, as a single episode's are: it costs half."""
    if len(places) and places[-1] - places[0] == len(places) - 1:
        return slice(places[0], places[-1] + 1)
    return places
