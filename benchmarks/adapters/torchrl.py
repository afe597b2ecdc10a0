"""Adapters for the ``HERReplayBuffer`` of TorchRL, which takes goals before (default) or after a step."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from tensordict import TensorDict
from torchrl.data import HERReplayBuffer, LazyTensorStorage

from benchmarks.scoreboard_claims import offers_of
from her_wrappers.conformance.adapter import ReplayAdapter
from her_wrappers.conformance.adapters.torchrl import as_arrays, as_tensordict

if TYPE_CHECKING:
    import gymnasium as gym


class TorchRL(ReplayAdapter):
    """``HERReplayBuffer`` with a ``LazyTensorStorage`` of one dimension; transitions are added one by one."""

    name = f"TorchRL {version('torchrl')}"
    offers = offers_of("torchrl:TorchRL")
    arguments: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, env: gym.Env[Any, Any], *, buffer_size: int, n_sampled_goal: int, **options: Any
    ) -> None:
        functions: Any = env

        def reward(transitions: TensorDict) -> torch.Tensor:
            achieved, desired = transitions["next", "achieved_goal"], transitions["desired_goal"]
            infos = {"cost": transitions["next", "cost"].numpy()}
            rewards = functions.compute_reward(achieved.numpy(), desired.numpy(), infos)
            return torch.as_tensor(rewards, dtype=torch.float32)[:, None]

        self._space: Any = env.observation_space
        self.buffer = HERReplayBuffer(
            reward,
            storage=LazyTensorStorage(buffer_size),
            her_ratio=n_sampled_goal / (n_sampled_goal + 1),
            strategy=options["strategy"],
            **self.arguments,
        )

    def add(self, *transition: Any, env_index: int = 0) -> None:
        """Add a transition; ``env_index`` is not used, since only one environment is supported."""
        self.buffer.add(as_tensordict(transition))

    def sample(self, batch_size: int) -> dict[str, Any]:
        """Return a batch in the format of `ReplayAdapter.sample`."""
        return as_arrays(self.buffer.sample(batch_size), self._space)

    def save(self, path: str) -> None:
        """Save the buffer in a folder."""
        self.buffer.dumps(path)

    def load(self, path: str) -> None:
        """Load the buffer from a folder."""
        self.buffer.loads(path)


class TorchRLNextGoals(TorchRL):
    """`TorchRL` with ``achieved_goal_key=("next", "achieved_goal")``."""

    name = f"TorchRL {version('torchrl')}, goals after the step"
    arguments: ClassVar[dict[str, Any]] = {"achieved_goal_key": ("next", "achieved_goal")}
