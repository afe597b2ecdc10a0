"""The floor: what the machine takes to copy a batch's rows out of memory, and nothing else."""

from __future__ import annotations

import numpy as np

from benchmarks.replay_buffers.contender import RELABELED_SHARE
from benchmarks.replay_task import ACTION, GOAL, OBSERVATION

STEP = np.dtype(
    [
        ("observation", np.float32, OBSERVATION),
        ("achieved_goal", np.float32, GOAL),
        ("desired_goal", np.float32, GOAL),
        ("action", np.float32, ACTION),
        ("reward", np.float32),
        ("steps_left", np.int32),
        ("terminated", np.bool_),
        ("truncated", np.bool_),
    ],
    align=True,
)
"""All that is known of a step."""

RELABELED_GOAL = np.dtype([("goal", np.float32, GOAL)])


class Floor:
    """Two gathers of records, of steps and of those behind them, and one of goals for the relabeled share.

    Its indices are fresh for every batch, as a buffer's are, and drawn where no time is taken.

    Attributes:
        name: Of the row in the tables.

    Args:
        stored: Steps.
    """

    name = "floor"

    def __init__(self, stored: int) -> None:
        # Zeros would all be one page of memory, which no buffer's rows are.
        self._steps = np.full(stored + 1, np.ones((), STEP))
        self._goals = np.full(stored + 1, np.ones((), RELABELED_GOAL))
        self._rng = np.random.default_rng(0)
        self._draws: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def draw(self, batch_size: int, calls: int) -> None:
        """Draw the indices of so many batches."""
        self._draws = []
        for _ in range(calls):
            rows = self._rng.integers(len(self._steps) - 1, size=batch_size)
            goals = self._rng.integers(len(self._goals), size=round(RELABELED_SHARE * batch_size))
            self._draws.append((rows, rows + 1, goals))

    def gather(self) -> None:
        """Copy the batches that were drawn."""
        steps, goals = self._steps, self._goals
        for rows, following, sources in self._draws:
            steps.take(rows)
            steps.take(following)
            goals.take(sources)
