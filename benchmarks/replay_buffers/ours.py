"""Our buffer, with batches as arrays and as tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.replay_buffers.contender import SAMPLED_GOALS, BatchColumns, Contender
from benchmarks.replay_task import ACTION_SPACE, OBSERVATION_SPACE, compute_reward
from her_wrappers import HindsightReplayBuffer, Priority

if TYPE_CHECKING:
    from her_wrappers import Episode
    from her_wrappers.replay.batch import Batch


class Ours(Contender):
    """`her_wrappers.HindsightReplayBuffer`."""

    name = "her-toolkit"
    prioritized: Priority | None = None

    def __init__(self, capacity: int) -> None:
        self.buffer = HindsightReplayBuffer(
            OBSERVATION_SPACE,
            ACTION_SPACE,
            buffer_size=capacity,
            compute_reward=compute_reward,
            n_sampled_goal=SAMPLED_GOALS,
            prioritized=self.prioritized,
            seed=0,
        )

    def step_arguments(self, episode: Episode) -> list[tuple[Any, ...]]:
        states = [
            {key: states[t] for key, states in episode.observations.items()} for t in range(len(episode) + 1)
        ]
        return [
            (
                states[t],
                episode.actions[t],
                float(episode.rewards[t]),
                states[t + 1],
                False,
                t + 1 == len(episode),
            )
            for t in range(len(episode))
        ]

    def add_step(self, step: tuple[Any, ...]) -> None:
        self.buffer.add(*step)

    def episode_argument(self, episode: Episode) -> Episode:
        return episode

    def add_episode(self, argument: Episode) -> None:
        self.buffer.add_episode(argument)

    def sample(self, batch_size: int) -> Batch:
        return self.buffer.sample(batch_size)

    def columns(self, batch: Batch) -> BatchColumns:
        return BatchColumns(
            batch.next_observations["achieved_goal"], batch.observations["desired_goal"], batch.rewards
        )


class OursAsTensors(Ours):
    """Our buffer with ``to_torch()``, for comparison with libraries that return tensors."""

    name = "her-toolkit, to_torch()"

    def sample(self, batch_size: int) -> Batch:
        return self.buffer.sample(batch_size).to_torch()

    def columns(self, batch: Batch) -> BatchColumns:
        tensors: tuple[Any, ...] = super().columns(batch)
        return BatchColumns(*(tensor.numpy() for tensor in tensors))
