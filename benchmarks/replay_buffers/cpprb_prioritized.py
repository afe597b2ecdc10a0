"""cpprb's two buffers with priorities, written in C++: with and without HER.

https://ymd_h.gitlab.io/cpprb/features/per/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from cpprb import PrioritizedReplayBuffer
from numpy.typing import NDArray

from benchmarks.replay_buffers.contender import BatchColumns
from benchmarks.replay_buffers.cpprb import Cpprb
from benchmarks.replay_buffers.prioritized import ALPHA, BETA, EPS, Priorities, Prioritized
from benchmarks.replay_task import ACTION, OBSERVATION

if TYPE_CHECKING:
    from her_wrappers import Episode


class CpprbPrioritized(Cpprb, Prioritized):
    """Stores k + 1 copies of each transition, each with its own priority."""

    name = "cpprb, HER"
    setting = (
        f"`HindsightReplayBuffer(prioritized=True)`, alpha {ALPHA}, eps {EPS:g}; it relabels when an episode "
        "is stored, and stores every transition five times"
    )
    prioritized = True

    def sample(self, batch_size: int) -> dict[str, Any]:
        """Sample a batch of arrays."""
        return self.buffer.sample(batch_size, beta=BETA)

    def index(self, batch: dict[str, Any]) -> NDArray[np.integer[Any]]:
        """Return the indices of the rows."""
        index: NDArray[np.integer[Any]] = batch["indexes"]
        return index

    def update(self, index: NDArray[np.integer[Any]], priorities: Priorities) -> None:
        """Set the priorities of rows."""
        self.buffer.update_priorities(index, priorities)


class CpprbPlain(CpprbPrioritized):
    """A buffer without relabeling."""

    name = "cpprb, plain"
    setting = f"`PrioritizedReplayBuffer`, alpha {ALPHA}, eps {EPS:g}; without relabeling"
    rows_per_transition = 1

    def __init__(self, capacity: int) -> None:
        states = {"shape": OBSERVATION}
        columns = {"obs": states, "act": {"shape": ACTION}, "rew": {}, "next_obs": states, "done": {}}
        self.buffer = PrioritizedReplayBuffer(capacity, columns, alpha=ALPHA, eps=EPS)

    def episode_argument(self, episode: Episode) -> tuple[Any, ...]:
        """Return the columns of an episode, (T, ...) arrays, as the arguments of `add`."""
        columns, _ = super().episode_argument(episode)
        return ({**columns, "rew": episode.rewards, "done": np.zeros(len(episode))},)

    def add_episode(self, argument: tuple[Any, ...]) -> None:
        """Add all transitions in one call."""
        self.buffer.add(**argument[0])
        self.buffer.on_episode_end()

    def columns(self, batch: dict[str, Any]) -> BatchColumns:
        """Raise NotImplementedError, since the buffer does not store goals."""
        raise NotImplementedError(f"{self.name} does not store goals")
