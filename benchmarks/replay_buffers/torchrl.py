"""TorchRL's ``HERReplayBuffer``.

https://docs.pytorch.org/rl/stable/reference/data.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict
from torchrl import logger
from torchrl.data import HERReplayBuffer, LazyTensorStorage

from benchmarks.replay_buffers.contender import RELABELED_SHARE, Contender, Rows
from benchmarks.replay_task import TOLERANCE

if TYPE_CHECKING:
    from her_wrappers import Episode

ROOM = 250_000
"""Rows that stay free: once the storage is full, extending it and sampling raises RuntimeError."""


def reward_of(transitions: TensorDict) -> torch.Tensor:
    """Return the reward in the form that TorchRL asks for."""
    offset = transitions["next", "achieved_goal"] - transitions["desired_goal"]
    return -(offset.norm(dim=-1, keepdim=True) > TOLERANCE).float()


class TorchRL(Contender):
    """Tensors in memory."""

    name = "TorchRL"
    setting = (
        "`HERReplayBuffer`, `LazyTensorStorage` with room to spare, since it fails when full; "
        '`achieved_goal_key=("next", "achieved_goal")`, without which it takes goals from before the step; '
        "its batches are tensors"
    )

    def __init__(self, capacity: int) -> None:
        logger.setLevel("WARNING")
        self.buffer = HERReplayBuffer(
            reward_of,
            storage=LazyTensorStorage(capacity + ROOM),
            her_ratio=RELABELED_SHARE,
            strategy="future",
            achieved_goal_key=("next", "achieved_goal"),
        )

    def steps(self, episode: Episode) -> list[TensorDict]:
        """Return the argument of `add`."""
        return list(self.whole(episode).unbind(0))

    def add_step(self, step: TensorDict) -> None:
        """Add one transition."""
        self.buffer.add(step)

    def whole(self, episode: Episode) -> TensorDict:
        """Return the argument of `extend`."""
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

    def add_whole(self, whole: TensorDict) -> None:
        """Add all transitions by one call."""
        self.buffer.extend(whole)

    def sample(self, batch_size: int) -> TensorDict:
        """Draw a batch of tensors."""
        return self.buffer.sample(batch_size)

    def rows(self, batch: Any) -> Rows:
        """Return what a batch says."""
        parts = batch["next", "achieved_goal"], batch["desired_goal"], batch["next", "reward"][:, 0]
        return Rows(*(part.numpy() for part in parts))
