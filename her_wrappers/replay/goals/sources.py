"""Sources: which states, in the episode or anywhere, supply the goals of the steps of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.replay.goals.selection import Strategy
    from her_wrappers.replay.goals.shares import Part
    from her_wrappers.replay.storage.draw import Located
    from her_wrappers.replay.storage.episode_storage import EpisodeStorage


class Sources:
    """Chooses the states that supply goals.

    Args:
        storage: Where the states are.
        parts: The parts of a batch that get new goals.
        skip_trivial: Whether to choose once more where a goal was achieved before the step already.
    """

    def __init__(self, storage: EpisodeStorage, parts: Sequence[Part], *, skip_trivial: bool) -> None:
        self._storage = storage
        self._parts = parts
        self._skip_trivial = skip_trivial

    def choose(
        self, steps: Located, part: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Choose states for steps.

        Args:
            steps: (n,) steps.
            part: (n,) which of the parts each is of, or a higher number for none.
            rng: Source of all randomness.

        Returns:
            (n,) positions of the states, and numbers of the steps that led there; anything for other steps.
        """
        if len(self._parts) == 1:
            # To choose for the original ones as well, needlessly, is quicker than to pick out the others.
            chosen = self._choose_by(self._parts[0].select, steps, rng)
        else:
            chosen = np.zeros_like(steps.numbers), np.zeros_like(steps.numbers)
            self._choose_into(chosen, steps, part, rng)
        if self._skip_trivial:
            self._choose_into(chosen, steps, self._trivial(chosen[0], steps, part), rng)
        return chosen

    def _trivial(self, sources: np.ndarray, steps: Located, part: np.ndarray) -> np.ndarray:
        """Return which part each step is of whose goal was achieved before it already; others are of none."""
        rows = np.flatnonzero(part < len(self._parts))
        trivial = rows[self._storage.same_goals(steps.states[rows], sources[rows])]
        part_of_trivial = np.full_like(part, len(self._parts))
        part_of_trivial[trivial] = part[trivial]
        return part_of_trivial

    def _choose_into(
        self,
        chosen: tuple[np.ndarray, np.ndarray],
        steps: Located,
        part: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        sources, goal_index = chosen
        for number, each in enumerate(self._parts):
            rows = np.flatnonzero(part == number)
            if len(rows):
                sources[rows], goal_index[rows] = self._choose_by(each.select, steps.take(rows), rng)

    def _choose_by(
        self, select: Strategy | None, steps: Located, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Choose in the episode by a strategy, or anywhere if there is none."""
        if select is None:
            found = self._storage.draw(len(steps.numbers), rng)
            return self._storage.states_after(found), found
        first_index = steps.segments["first_index"]
        t = steps.numbers - first_index
        state = select(t, steps.segments["length"], rng)
        return steps.states - t + state, first_index + state - 1
