"""Goal sources: where in a storage the goals of a batch's relabeled steps come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from her_wrappers.replay.step_layout import same_goals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.replay.goal_selection import Strategy
    from her_wrappers.replay.shares import Part
    from her_wrappers.replay.step_layout import Steps
    from her_wrappers.replay.storage import EpisodeStorage

Rows = slice | np.ndarray


class GoalSources(NamedTuple):
    """Where the goals of the first M steps of a batch come from.

    Attributes:
        numbers: (B,) numbers of the steps.
        first_index: (B,) number of the first step of each step's episode.
        states: (B,) positions of the states in which the steps begin.
        sources: (M,) positions of the states that supply the goals.
        elsewhere: For those rows whose goal is of any episode, numbers of the steps that achieved them.
    """

    numbers: np.ndarray
    first_index: np.ndarray
    states: np.ndarray
    sources: np.ndarray
    elsewhere: list[tuple[Rows, np.ndarray]]

    @property
    def goal_index(self) -> np.ndarray:
        """Numbers of the steps that achieved the goals, (B,) int64; -1 where there is no new goal."""
        count = len(self.sources)
        goal_index = np.full(len(self.numbers), -1)
        goal_index[:count] = self.numbers[:count] + self.sources - self.states[:count] - 1
        for rows, found in self.elsewhere:
            goal_index[rows] = found
        return goal_index


def choose_sources(
    storage: EpisodeStorage,
    steps: Steps,
    parts: Sequence[Part],
    rows: Sequence[slice],
    rng: np.random.Generator,
    *,
    skip_trivial: bool,
) -> GoalSources:
    """Choose a state for each of the first steps.

    Args:
        storage: Where the states are.
        steps: (B,) the batch.
        parts: How each part of the batch chooses.
        rows: Its rows, which follow on those of the part before.
        rng: Source of all randomness.
        skip_trivial: Whether to choose once more where a goal was achieved before the step already.
    """
    first_index, length = steps.segments["first_index"], steps.segments["length"]
    t = steps.numbers - first_index
    first_states = steps.states - t
    sources = np.empty(rows[-1].stop if rows else 0, np.int64)
    elsewhere: list[tuple[Rows, np.ndarray]] = []

    def choose(select: Strategy | None, rows: Rows) -> None:
        if select is None:
            found = storage.draw(len(sources[rows]), rng)
            sources[rows] = storage.states_after(found)
            elsewhere.append((rows, found))
        else:
            sources[rows] = first_states[rows] + select(t[rows], length[rows], rng)

    for part, part_rows in zip(parts, rows, strict=True):
        choose(part.select, part_rows)
    if skip_trivial:
        trivial = same_goals(storage.achieved_goals(sources), steps.records["goal"][: len(sources)])
        for part, part_rows in zip(parts, rows, strict=True):
            choose(part.select, part_rows.start + np.flatnonzero(trivial[part_rows]))
    return GoalSources(steps.numbers, first_index, steps.states, sources, elsewhere)
