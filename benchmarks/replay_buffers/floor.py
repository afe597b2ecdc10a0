"""Floor: a lower bound on the time to sample a batch, the time to copy its rows from memory."""

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
"""All data of a step."""

RELABELED_GOAL = np.dtype([("goal", np.float32, GOAL)])


class Floor:
    """Gathers the records of steps and of their next steps, and the goals of the relabeled rows.

    Every batch has other random indices, as in a buffer; they are sampled before the measurement.

    Attributes:
        name: Name in the tables.

    Args:
        stored: Number of stored steps.
    """

    name = "floor"

    def __init__(self, stored: int) -> None:
        # Not zeros, for which the system would map all pages to one page of memory.
        self._steps = np.full(stored + 1, np.ones((), STEP))
        self._goals = np.full(stored + 1, np.ones((), RELABELED_GOAL))
        self._rng = np.random.default_rng(0)
        self._indices: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def draw(self, batch_size: int, calls: int) -> None:
        """Sample the indices of ``calls`` batches."""
        self._indices = []
        for _ in range(calls):
            rows = self._rng.integers(len(self._steps) - 1, size=batch_size)
            goals = self._rng.integers(len(self._goals), size=round(RELABELED_SHARE * batch_size))
            self._indices.append((rows, rows + 1, goals))

    def gather(self) -> None:
        """Copy the rows of all batches."""
        steps, goals = self._steps, self._goals
        for rows, following, sources in self._indices:
            steps.take(rows)
            steps.take(following)
            goals.take(sources)
