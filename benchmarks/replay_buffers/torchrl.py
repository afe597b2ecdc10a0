"""TorchRL's ``HERReplayBuffer``.

https://docs.pytorch.org/rl/stable/reference/data.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict
from torchrl import logger
from torchrl.data import HERReplayBuffer, LazyTensorStorage

from benchmarks.replay_buffers.contender import RELABELED_SHARE, BatchColumns, Contender
from benchmarks.replay_task import TOLERANCE

if TYPE_CHECKING:
    from her_wrappers import Episode

FREE_ROWS = 250_000
"""Rows of the storage that stay empty, since `extend` and `sample` raise RuntimeError if it is full."""


def reward_of(transitions: TensorDict) -> torch.Tensor:
    """Return the reward, with the arguments of TorchRL's reward function."""
    offset = transitions["next", "achieved_goal"] - transitions["desired_goal"]
    return -(offset.norm(dim=-1, keepdim=True) > TOLERANCE).float()


class TorchRL(Contender):
    """`HERReplayBuffer` with a `LazyTensorStorage`."""

    name = "TorchRL"
    setting = (
        "`HERReplayBuffer`, `LazyTensorStorage` that is never full, since a full one raises errors; "
        '`achieved_goal_key=("next", "achieved_goal")`, since the default uses goals from before the step; '
        "`sample` returns tensors"
    )

    def __init__(self, capacity: int) -> None:
        logger.setLevel("WARNING")
        self.buffer = HERReplayBuffer(
            reward_of,
            storage=LazyTensorStorage(capacity + FREE_ROWS),
            her_ratio=RELABELED_SHARE,
            strategy="future",
            achieved_goal_key=("next", "achieved_goal"),
        )

    def step_arguments(self, episode: Episode) -> list[TensorDict]:
        return list(self.episode_argument(episode).unbind(0))

    def add_step(self, step: TensorDict) -> None:
        self.buffer.add(step)

    def episode_argument(self, episode: Episode) -> TensorDict:
        """Return an episode as a TensorDict of T rows, the argument of `extend`."""
        done = torch.zeros(len(episode), 1, dtype=torch.bool)
        terminated = done.clone()
        done[-1] = True
        states = {key: torch.from_numpy(states) for key, states in episode.observations.items()}
        return TensorDict(
            {
                **{key: column[:-1] for key, column in states.items()},
                "action": torch.from_numpy(episode.actions),
                "next": {
                    **{key: column[1:] for key, column in states.items()},
                    "reward": torch.from_numpy(episode.rewards)[:, None],
                    "done": done,
                    "terminated": terminated,
                    "truncated": done.clone(),
                },
            },
            batch_size=[len(episode)],
        )

    def add_episode(self, argument: TensorDict) -> None:
        self.buffer.extend(argument)

    def sample(self, batch_size: int) -> TensorDict:
        return self.buffer.sample(batch_size)

    def columns(self, batch: Any) -> BatchColumns:
        columns = batch["next", "achieved_goal"], batch["desired_goal"], batch["next", "reward"][:, 0]
        return BatchColumns(*(column.numpy() for column in columns))
