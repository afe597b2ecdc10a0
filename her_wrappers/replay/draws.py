"""Draws: which steps make up the next batches, and which states supply their goals.

NumPy takes hardly longer for thousands of rows than for hundreds. So as long as nothing is added, the rows of
several batches are drawn at once, twice as many as the last time; each is as random as if drawn alone.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from her_wrappers.replay.steps import same_goals

if TYPE_CHECKING:
    from her_wrappers.replay.goal_selection import Strategy
    from her_wrappers.replay.shares import Shares
    from her_wrappers.replay.storage import EpisodeStorage

MOST_ROWS = 4096
"""Rows that are drawn at once, unless a single batch has more."""

MOST_BATCHES = 16
"""Batches that are drawn at once; more would save little."""


class Draw(NamedTuple):
    """The B rows of a batch, relabeled ones first; or of several batches.

    Attributes:
        numbers: (B,) numbers of the steps.
        states: (B,) positions of the states in which they begin.
        segments: (B,) their segments.
        part: (B,) which part of the shares each row is in.
        relabeled: (B,) bool, whether that is one which gets new goals.
        sources: (B,) positions of the states that supply them; anything where there is none.
        goal_index: (B,) numbers of the steps that led there; -1 where there is none.
    """

    numbers: np.ndarray
    states: np.ndarray
    segments: np.ndarray
    part: np.ndarray
    relabeled: np.ndarray
    sources: np.ndarray
    goal_index: np.ndarray

    def cut(self, rows: slice) -> Draw:
        """Return views of some rows."""
        return Draw(*[column[rows] for column in self])


class Ahead(NamedTuple):
    """What was drawn ahead, in numbers that do not depend on where things are stored.

    Attributes:
        batch_size: Rows of a batch; 0 before the first.
        batches: How many were drawn at once.
        used: How many of them have been handed out; without any left there are no rows.
        numbers: (batches * batch_size,) numbers of the steps.
        part: Which part of the shares each row is in.
        goal_index: Numbers of the steps that led to the new goals; -1 where there is none.
    """

    batch_size: int
    batches: int
    used: int
    numbers: np.ndarray
    part: np.ndarray
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

    def ahead(self) -> Ahead:
        """Return what was drawn ahead."""
        none = np.zeros(0, np.int64)
        left = self._used < self._batches
        rows = (self._ahead.numbers, self._ahead.part, self._ahead.goal_index) if left else (none,) * 3
        return Ahead(self._batch_size, self._batches, self._used, *rows)

    def restore(self, ahead: Ahead) -> None:
        """Go on with what was drawn ahead elsewhere, from the same episodes.

        Raises:
            ValueError: It is not drawn from the steps that are stored.
        """
        batch_size, batches, used, numbers, part, goal_index = ahead
        if not (0 <= used <= batches and batch_size >= 0):
            raise ValueError(f"expected batches, got {used} used of {batches} of {batch_size} rows")
        if used < batches:
            relabeled = part < len(self._shares.parts)
            stored = self._storage.first_index, self._storage.first_index + self._storage.num_steps
            _require_rows(part, batches * batch_size, (0, len(self._shares.parts) + 1))
            _require_rows(numbers, batches * batch_size, stored)
            _require_rows(goal_index[relabeled], int(relabeled.sum()), stored)
            segments, states = self._storage.locate(numbers)
            sources = np.full_like(numbers, -1)
            sources[relabeled] = self._storage.states_after(goal_index[relabeled])
            self._ahead = Draw(numbers, states, segments, part, relabeled, sources, goal_index)
            self._counts = relabeled.reshape(batches, batch_size).sum(axis=1).tolist()
        self._batch_size, self._batches, self._used = batch_size, batches, used

    def next(self, batch_size: int) -> tuple[Draw, int]:
        """Return the rows of the next batch, and how many of them are relabeled."""
        if batch_size != self._batch_size:
            self.forget()
            self._batch_size = batch_size
        if self._used == self._batches:
            most = min(MOST_BATCHES, MOST_ROWS // batch_size)
            batches = max(1, min(2 * self._batches, most))
            self._ahead, self._counts = self._draw(batches, batch_size)
            # Only now: after an error there is nothing ahead.
            self._batches, self._used = batches, 0
        number, begin = self._used, self._used * batch_size
        self._used += 1
        return self._ahead.cut(slice(begin, begin + batch_size)), self._counts[number]

    def _draw(self, batches: int, batch_size: int) -> tuple[Draw, list[int]]:
        numbers = self._storage.draw(batches * batch_size, self._rng)
        segments, states = self._storage.locate(numbers)
        part = self._shares.draw(batches, batch_size, self._rng)
        relabeled = part < len(self._shares.parts)
        nowhere = np.full_like(numbers, -1)
        draw = Draw(numbers, states, segments, part.ravel(), relabeled.ravel(), nowhere, nowhere.copy())
        parts = list(enumerate(self._shares.parts))
        for number, each in parts:
            self._choose(each.select, draw, np.flatnonzero(draw.part == number))
        if self._skip_trivial:
            rows = np.flatnonzero(relabeled)
            here, there = (self._storage.achieved_goals(at[rows]) for at in (states, draw.sources))
            trivial = rows[same_goals(here, there)]
            for number, each in parts:
                self._choose(each.select, draw, trivial[draw.part[trivial] == number])
        return draw, relabeled.sum(axis=1).tolist()

    def _choose(self, select: Strategy | None, draw: Draw, rows: np.ndarray) -> None:
        """Choose states for some rows of a draw, in the episode or anywhere."""
        if not len(rows):
            return
        if select is None:
            found = self._storage.draw(len(rows), self._rng)
            draw.sources[rows] = self._storage.states_after(found)
            draw.goal_index[rows] = found
            return
        numbers = draw.numbers[rows]
        t = numbers - draw.segments["first_index"][rows]
        ahead = select(t, draw.segments["length"][rows], self._rng) - t
        draw.sources[rows] = draw.states[rows] + ahead
        draw.goal_index[rows] = numbers + ahead - 1


def _require_rows(rows: np.ndarray, count: int, between: tuple[int, int]) -> None:
    """Refuse what is not ``count`` numbers from the first to before the second.

    Raises:
        ValueError: It is not.
    """
    first, end = between
    if rows.shape != (count,) or rows.dtype.kind not in "iu" or ((rows < first) | (rows >= end)).any():
        raise ValueError(f"expected {count} numbers from {first} to before {end}, got {rows}")
