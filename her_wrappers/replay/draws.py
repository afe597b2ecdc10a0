"""Draws: which steps make up the next batches, and which states supply their goals.

NumPy takes hardly longer for thousands of rows than for hundreds. So as long as nothing is added, the rows of
several batches are drawn at once, twice as many as the last time; each is as random as if drawn alone.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from her_wrappers.arguments import require_count

if TYPE_CHECKING:
    from her_wrappers.replay.goal_selection import Strategy
    from her_wrappers.replay.shares import Shares
    from her_wrappers.replay.storage import EpisodeStorage

MOST_ROWS = 4096
"""Rows that are drawn at once, unless a single batch has more."""

MOST_BATCHES = 16
"""Batches that are drawn at once; more would save little."""


class Draw(NamedTuple):
    """The B rows of a batch, relabeled ones first; or of several batches end to end.

    Attributes:
        numbers: (B,) numbers of the steps.
        states: (B,) positions of the states in which they begin.
        places: (B,) places of their segments.
        first_index: (B,) numbers of the first steps of their episodes.
        part: (B,) which part of the shares each row is in.
        relabeled: (B,) bool, whether that is one which gets new goals.
        sources: (B,) positions of the states that supply them; anything where there is none.
        goal_index: (B,) numbers of the steps that led there; -1 where there is none.
    """

    numbers: np.ndarray
    states: np.ndarray
    places: np.ndarray
    first_index: np.ndarray
    part: np.ndarray
    relabeled: np.ndarray
    sources: np.ndarray
    goal_index: np.ndarray


class Draws:
    """Draws batches from a storage.

    Args:
        storage: Where the steps are.
        shares: How the parts of a batch get their goals.
        rng: Source of all randomness.
        skip_trivial: Whether to choose once more where a goal was achieved before the step already.
    """

    def __init__(
        self, storage: EpisodeStorage, shares: Shares, rng: np.random.Generator, *, skip_trivial: bool
    ) -> None:
        self._storage = storage
        self._shares = shares
        self._rng = rng
        self._skip_trivial = skip_trivial
        self.forget()

    def forget(self) -> None:
        """Forget what was drawn ahead, since what is stored changes."""
        self._batch_size = self._batches = self._used = 0

    def fork(self) -> Draws:
        """Return draws with a copy of the generator, which leave this one as it is."""
        rng = copy.deepcopy(self._rng)
        return Draws(self._storage, self._shares, rng, skip_trivial=self._skip_trivial)

    def next(self, batch_size: int) -> tuple[Draw, int]:
        """Return the rows of the next batch, and how many of them are relabeled.

        Raises:
            ValueError: ``batch_size`` is below 1, or there is nothing to draw from.
        """
        if batch_size != self._batch_size:
            self.forget()
        if self._used == self._batches:
            require_count("batch_size", batch_size, at_least=1)
            batches = max(1, min(2 * self._batches, MOST_BATCHES, MOST_ROWS // batch_size))
            self._ahead, self._counts = self._draw(batches, batch_size)
            self._batch_size, self._batches, self._used = batch_size, batches, 0
        number = self._used
        self._used += 1
        return Draw(*[column[number] for column in self._ahead]), self._counts[number]

    def _draw(self, batches: int, batch_size: int) -> tuple[list[np.ndarray], list[int]]:
        """Return the columns of a draw, with a row for each batch, and how many are relabeled in each.

        Raises:
            ValueError: There is nothing to draw from.
        """
        if not self._storage.num_steps:
            raise ValueError(
                "cannot sample before an episode is complete; add until can_sample "
                "(only terminated or truncated episodes count)"
            )
        numbers = self._storage.draw(batches * batch_size, self._rng)
        places, segments, states = self._storage.locate(numbers)
        part = self._shares.draw(batches, batch_size, self._rng)
        relabeled = part < len(self._shares.parts)
        draw = Draw(
            numbers,
            states,
            places,
            segments["first_index"],
            part.ravel(),
            relabeled.ravel(),
            sources=np.empty_like(numbers),
            goal_index=np.empty_like(numbers),
        )
        self._choose_all(draw, segments["length"])
        if self._skip_trivial:
            self._choose_again(draw, segments["length"])
        np.putmask(draw.goal_index, ~draw.relabeled, -1)
        return [column.reshape(batches, batch_size) for column in draw], relabeled.sum(axis=1).tolist()

    def _choose_all(self, draw: Draw, lengths: np.ndarray) -> None:
        """Choose states for all relabeled rows."""
        for number, each in enumerate(self._shares.parts):
            # To choose for the original rows as well, needlessly, is quicker than to pick out the others.
            alone = len(self._shares.parts) == 1
            rows = slice(None) if alone else np.flatnonzero(draw.part == number)
            self._choose(each.select, draw, lengths, rows)

    def _choose_again(self, draw: Draw, lengths: np.ndarray) -> None:
        """Choose once more where the goal was achieved before the step already."""
        rows = np.flatnonzero(draw.relabeled)
        trivial = rows[self._storage.same_goals(draw.states[rows], draw.sources[rows])]
        for number, each in enumerate(self._shares.parts):
            self._choose(each.select, draw, lengths, trivial[draw.part[trivial] == number])

    def _choose(
        self, select: Strategy | None, draw: Draw, lengths: np.ndarray, rows: np.ndarray | slice
    ) -> None:
        """Choose states for some rows of a draw, in the episode or anywhere."""
        numbers = draw.numbers[rows]
        if select is None:
            found = self._storage.draw(len(numbers), self._rng)
            draw.sources[rows] = self._storage.states_after(found)
            draw.goal_index[rows] = found
            return
        t = numbers - draw.first_index[rows]
        ahead = select(t, lengths[rows], self._rng) - t
        draw.sources[rows] = draw.states[rows] + ahead
        draw.goal_index[rows] = numbers + ahead - 1
