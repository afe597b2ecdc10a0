"""Contenders that draw transitions by their priorities."""

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

    @abstractmethod
    def index(self, batch: Any) -> NDArray[np.integer[Any]]:
        """Return the numbers of a batch's rows; those of a buffer that was filled once begin with 0."""

    @abstractmethod
    def update(self, index: NDArray[np.integer[Any]], priorities: Priorities) -> None:
        """Give rows new priorities."""


class OursPrioritized(Ours, Prioritized):
    """`her_wrappers.HindsightReplayBuffer` with a `Priority`."""

    setting = f"`prioritized=Priority(alpha={ALPHA}, beta={BETA}, eps={EPS:g})`"
    prioritized = Priority(alpha=ALPHA, beta=BETA, eps=EPS)

    def index(self, batch: Any) -> NDArray[np.integer[Any]]:
        """Return the numbers of transitions."""
        index: NDArray[np.integer[Any]] = batch.index
        return index

    def update(self, index: NDArray[np.integer[Any]], priorities: Priorities) -> None:
        """Give transitions new priorities."""
        self.buffer.update_priorities(index, priorities)


def check_priorities(contender: Prioritized, priorities: Priorities, batches: int = 40) -> float:
    """Give all rows priorities; return the share of the likeliest tenth in what is drawn then.

    Raises:
        RuntimeError: It is not what priorities to the power of alpha make it; then it makes no sense to
            compare the time.
    """
    contender.update(np.arange(len(priorities)), priorities)
    odds = (priorities + EPS) ** ALPHA
    likeliest = odds >= np.quantile(odds, 0.9)
    # Copies: the next sample of cpprb overwrites the index of the last.
    found = np.concatenate([contender.index(contender.sample(256)).copy() for _ in range(batches)])
    share, expected = float(likeliest[found].mean()), float(odds[likeliest].sum() / odds.sum())
    if abs(share - expected) > 0.02:
        raise RuntimeError(f"{contender.name} draws the likeliest tenth in {share:.3f}, not {expected:.3f}")
    return share
