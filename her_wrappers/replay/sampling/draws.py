"""Draws: which steps make up the next batches, and which states supply their goals.

NumPy takes hardly longer for thousands of rows than for hundreds. So as long as nothing is added, and no
priority changes, the rows of several batches are drawn at once, twice as many as the last time; each is as
random as if drawn alone.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from her_wrappers.arguments import require_count
from her_wrappers.replay.arrays import filled_like
from her_wrappers.replay.goals.sources import Sources
from her_wrappers.replay.storage.draw import Draw, Located
from her_wrappers.replay.storage.steps import before_and_after

if TYPE_CHECKING:
    from her_wrappers.replay.goals.shares import Shares
    from her_wrappers.replay.priorities.stored import NoPriorities, Priorities
    from her_wrappers.replay.storage.episode_storage import EpisodeStorage

MOST_ROWS = 4096
"""Rows that are drawn at once, unless a single batch has more."""

MOST_BATCHES = 16
"""Batches that are drawn at once; more would save little."""


class Ahead(NamedTuple):
    """What was drawn ahead, in numbers that do not depend on where things are stored.

    Attributes:
        batch_size: Rows of a batch; 0 before the first.
        batches: How many were drawn at once.
        used: How many of them have been handed out: users may have written to their rows, which are left out.
        numbers: ((batches - used) * batch_size,) numbers of the steps.
        part: Which part of the shares each row is in.
        goal_index: Numbers of the steps that led to the new goals; anything where there are none.
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
        priorities: By which steps are drawn.
        windowed: Whether batches are of windows.
        gamma: Discount factor of a step.

    Attributes:
        rng: Source of all randomness.
    """

    def __init__(
        self,
        storage: EpisodeStorage,
        shares: Shares,
        rng: np.random.Generator,
        *,
        skip_trivial: bool,
        priorities: Priorities | NoPriorities,
        windowed: bool,
        gamma: float,
    ) -> None:
        self._storage = storage
        self._shares = shares
        self.rng = rng
        self._sources = Sources(storage, shares.parts, skip_trivial=skip_trivial)
        self._priorities = priorities
        self._windowed = windowed
        self._gamma = gamma
        self.forget()

    def forget(self) -> None:
        """Forget what was drawn ahead, since what is stored changes, or how likely it is."""
        self._batch_size = self._batches = 0
        self._ahead: deque[tuple[Draw, int]] = deque()

    def fork(self) -> Draws:
        """Return draws with a copy of the generator, which leave this one as it is."""
        fork = copy.copy(self)
        fork.rng = copy.deepcopy(self.rng)
        fork.forget()
        return fork

    def ahead(self) -> Ahead:
        """Return what was drawn ahead."""
        none = np.zeros(0, np.int64)
        batches = [(draw.host_numbers, draw.part, draw.goal_index) for draw, _ in self._ahead] or [
            (none, none, none)
        ]
        rows = map(np.concatenate, zip(*batches, strict=True))
        return Ahead(self._batch_size, self._batches, self._batches - len(self._ahead), *rows)

    def restore(self, ahead: Ahead) -> None:
        """Go on with what was drawn ahead elsewhere, from the same episodes.

        Raises:
            ValueError: It is not drawn from the steps that are stored, or not in the form of batches.
        """
        batch_size, batches, used, numbers, part, goal_index = ahead
        if not (0 <= used <= batches and batch_size >= 0):
            raise ValueError(f"expected batches, got {used} used of {batches} of {batch_size} rows")
        if used < batches:
            relabeled = part < len(self._shares.parts)
            stored = self._storage.first_index, self._storage.first_index + self._storage.num_steps
            count = (batches - used) * batch_size
            _require_rows(part, count, (0, len(self._shares.parts) + 1))
            _require_rows(numbers, count, stored)
            _require_rows(goal_index[relabeled], int(relabeled.sum()), stored)
            part = part.reshape(batches - used, batch_size)
            if (part[:, 1:] < part[:, :-1]).any():
                raise ValueError(f"expected the parts of a batch in their order, got {part}")
            numbers, goal_index = numbers.astype(np.int64), goal_index.astype(np.int64)
            sources = np.zeros_like(numbers)
            sources[relabeled] = self._storage.states_after(goal_index[relabeled])
            steps = self._storage.locate(numbers)
            self._hold(*self._in_batches(steps, part, sources, goal_index))
        self._batch_size, self._batches = batch_size, batches

    def next(self, batch_size: int) -> tuple[Draw, int]:
        """Return the rows of the next batch, and how many of them are relabeled.

        Raises:
            ValueError: ``batch_size`` is below 1, or there is nothing to draw from.
        """
        if batch_size != self._batch_size:
            self.forget()
        if not self._ahead:
            require_count("batch_size", batch_size, at_least=1)
            batches = max(1, min(2 * self._batches, MOST_BATCHES, MOST_ROWS // batch_size))
            self._hold(*self._draw(batches, batch_size))
            # Only now: after an error there is nothing ahead.
            self._batch_size, self._batches = batch_size, batches
        return self._ahead.popleft()

    def _hold(self, draw: Draw, counts: list[int]) -> None:
        """Keep what was drawn, batch by batch, where the storage has its records."""
        draws = map(Draw._make, zip(*self._storage.send(draw), strict=True))
        self._ahead = deque(zip(draws, counts, strict=True))

    def _draw(self, batches: int, batch_size: int) -> tuple[Draw, list[int]]:
        """Draw batches, and return how many rows are relabeled in each.

        Raises:
            ValueError: There is nothing to draw from.
        """
        if not self._storage.num_steps:
            raise ValueError(
                "cannot sample before an episode is complete; add until can_sample "
                "(only terminated or truncated episodes count)"
            )
        numbers = self._priorities.draw(batches * batch_size, self.rng)
        steps = self._storage.locate(numbers)
        part = self._shares.draw(batches, batch_size, self.rng)
        sources, goal_index = self._sources.choose(steps, part.ravel(), self.rng)
        return self._in_batches(steps, part, sources, goal_index)

    def _in_batches(
        self, steps: Located, part: np.ndarray, sources: np.ndarray, goal_index: np.ndarray
    ) -> tuple[Draw, list[int]]:
        """Return the draw of steps end to end, with the shape of their parts, (batches, batch_size)."""
        relabeled = part < len(self._shares.parts)
        draw = Draw(
            numbers=steps.numbers.reshape(part.shape),
            states=before_and_after(steps.states.reshape(part.shape)),
            places=steps.places.reshape(part.shape),
            first_index=steps.segments["first_index"].reshape(part.shape),
            sources=sources.reshape(part.shape),
            goal_index=goal_index.reshape(part.shape),
            part=part,
            relabeled=relabeled,
            host_numbers=steps.numbers.reshape(part.shape),
            left=_steps_left(steps, relabeled) if self._windowed else part,
            discounts=filled_like(part, self._gamma),
            weights=filled_like(part, 1),
        )
        return draw, relabeled.sum(axis=1).tolist()


def _steps_left(steps: Located, relabeled: np.ndarray) -> np.ndarray:
    """Return how many steps may have the goal of each, in the shape of ``relabeled``."""
    segments = steps.segments.reshape(relabeled.shape)
    episode_end = segments["first_index"] + segments["length"]
    left: np.ndarray = np.where(relabeled, episode_end, segments["end"])
    left -= steps.numbers.reshape(relabeled.shape)
    return left


def _require_rows(rows: np.ndarray, count: int, between: tuple[int, int]) -> None:
    """Refuse what is not ``count`` numbers from the first to before the second.

    Raises:
        ValueError: It is not.
    """
    first, end = between
    if rows.shape != (count,) or rows.dtype.kind not in "iu" or ((rows < first) | (rows >= end)).any():
        raise ValueError(f"expected {count} numbers from {first} to before {end}, got {rows}")
