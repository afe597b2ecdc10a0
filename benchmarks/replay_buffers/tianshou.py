"""Tianshou's ``HERReplayBuffer``.

https://tianshou.org/en/stable/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tianshou.data import Batch, HERReplayBuffer

from benchmarks.replay_buffers.contender import SAMPLED_GOALS, BatchColumns, Contender
from benchmarks.replay_task import HORIZON, compute_reward

if TYPE_CHECKING:
    from her_wrappers import Episode


class Tianshou(Contender):
    """Tianshou overwrites the stored goals while sampling, and restores the goals before the next call."""

    name = "Tianshou"
    setting = "`HERReplayBuffer`, `future_k=5`, since it relabels 1 - 1/k of the episodes in a batch"

    def __init__(self, capacity: int) -> None:
        self.buffer = HERReplayBuffer(
            capacity, compute_reward_fn=compute_reward, horizon=HORIZON, future_k=SAMPLED_GOALS + 1
        )

    def step_arguments(self, episode: Episode) -> list[Batch]:
        states = [
            Batch({key: states[t] for key, states in episode.observations.items()})
            for t in range(len(episode) + 1)
        ]
        return [
            Batch(
                obs=states[t],
                act=episode.actions[t],
                rew=episode.rewards[t],
                terminated=False,
                truncated=t + 1 == len(episode),
                obs_next=states[t + 1],
                info={},
            )
            for t in range(len(episode))
        ]

    def add_step(self, step: Batch) -> None:
        self.buffer.add(step)

    def sample(self, batch_size: int) -> Any:
        return self.buffer.sample(batch_size)[0]

    def columns(self, batch: Any) -> BatchColumns:
        return BatchColumns(batch.obs_next.achieved_goal, batch.obs_next.desired_goal, batch.rew)
