"""cpprb's two buffers with priorities, written in C++: for HER, and the plain one.

https://ymd_h.gitlab.io/cpprb/features/per/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from cpprb import PrioritizedReplayBuffer
from numpy.typing import NDArray

from benchmarks.replay_buffers.contender import Rows
from benchmarks.replay_buffers.cpprb import Cpprb
from benchmarks.replay_buffers.prioritized import ALPHA, BETA, EPS, Priorities, Prioritized
from benchmarks.replay_task import ACTION, OBSERVATION

if TYPE_CHECKING:
    from her_wrappers import Episode


class CpprbPrioritized(Cpprb, Prioritized):
    """Gives each of the k + 1 copies of a transition a priority of its own."""

    name = "cpprb, HER"
    setting = (
        f"`HindsightReplayBuffer(prioritized=True)`, alpha {ALPHA}, eps {EPS:g}; it stores every transition "
        "five times, relabeled once and for all"
    )
    prioritized = True

    def sample(self, batch_size: int) -> dict[str, Any]:
        """Draw a batch of arrays."""
        return self.buffer.sample(batch_size, beta=BETA)

    def index(self, batch: dict[str, Any]) -> NDArray[np.integer[Any]]:
        """Return the places of rows."""
        index: NDArray[np.integer[Any]] = batch["indexes"]
        return index

    def update(self, index: NDArray[np.integer[Any]], priorities: Priorities) -> None:
        """Give rows new priorities."""
        self.buffer.update_priorities(index, priorities)


class CpprbPlain(CpprbPrioritized):
    """Relabels nothing: its batches are what the others' are before relabeling."""

    name = "cpprb, plain"
    setting = f"`PrioritizedReplayBuffer`, alpha {ALPHA}, eps {EPS:g}; it knows no goals"
    rows_a_transition = 1

    def __init__(self, capacity: int) -> None:
        states = {"shape": OBSERVATION}
        columns = {"obs": states, "act": {"shape": ACTION}, "rew": {}, "next_obs": states, "done": {}}
        self.buffer = PrioritizedReplayBuffer(capacity, columns, alpha=ALPHA, eps=EPS)

    def whole(self, episode: Episode) -> tuple[Any, ...]:
        """Return an episode's columns."""
        columns, _ = super().whole(episode)
        return ({**columns, "rew": episode.rewards, "done": np.zeros(len(episode))},)

    def add_whole(self, whole: tuple[Any, ...]) -> None:
        """Add all transitions by one call."""
        self.buffer.add(**whole[0])
        self.buffer.on_episode_end()

    def rows(self, batch: dict[str, Any]) -> Rows:
        """There are no goals to tell.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{self.name} knows no goals")
