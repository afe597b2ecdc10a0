"""Buffers that sample transitions by priority."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.replay_buffers.contender import Contender
from benchmarks.replay_buffers.ours import Ours
from her_wrappers import Priority

ALPHA, BETA, EPS = 0.6, 0.4, 1e-4

Priorities = NDArray[np.float64]


class Prioritized(Contender):
    """A buffer whose rows have priorities."""

    buffer: Any  # of the library

    @abstractmethod
    def index(self, batch: Any) -> NDArray[np.integer[Any]]:
        """Return the indices of the rows of a batch, counted from 0 if no row has been evicted."""

    def update(self, index: NDArray[np.integer[Any]], priorities: Priorities) -> None:
        """Set the priorities of rows."""
        self.buffer.update_priorities(index, priorities)


class OursPrioritized(Ours, Prioritized):
    """`her_wrappers.HindsightReplayBuffer` with a `Priority`."""

    prioritized = Priority(alpha=ALPHA, beta=BETA, eps=EPS)

    def index(self, batch: Any) -> NDArray[np.integer[Any]]:
        """Return the step numbers of the transitions."""
        return batch.index


def check_priorities(contender: Prioritized, priorities: Priorities, batches: int = 40) -> float:
    """Set the priorities of all rows; return how often the 10 % of rows with the highest ones are sampled.

    Raises:
        RuntimeError: The share of samples differs from the expected share, which follows from probabilities
            proportional to priority ** alpha. The times of such a buffer could not be compared.
    """
    contender.update(np.arange(len(priorities)), priorities)
    probabilities = (priorities + EPS) ** ALPHA
    is_likely = probabilities >= np.quantile(probabilities, 0.9)
    # Copies, since the next call of cpprb's sample overwrites the index.
    found = np.concatenate([contender.index(contender.sample(256)).copy() for _ in range(batches)])
    share = float(is_likely[found].mean())
    expected = float(probabilities[is_likely].sum() / probabilities.sum())
    if abs(share - expected) > 0.02:
        raise RuntimeError(
            f"{contender.name} must sample the tenth with the highest priorities with a share of "
            f"{expected:.3f}, got {share:.3f}"
        )
    return share
