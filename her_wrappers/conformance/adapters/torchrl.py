"""Adapters for the ``HERReplayBuffer`` of TorchRL, with default goals and with goals after the step."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from tensordict import TensorDict
from torchrl.data import HERReplayBuffer, LazyTensorStorage

from her_wrappers.conformance.adapter import ReplayAdapter

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    import gymnasium as gym


def as_tensordict(  # noqa: PLR0917 - a transition, as `ReplayAdapter.add` gets it
    obs: dict[str, Any],
    action: np.ndarray,
    reward: float,
    next_obs: dict[str, Any],
    terminated: bool,
    truncated: bool,
) -> TensorDict:
    """Return a transition as a collector of TorchRL writes it, without batch dimensions."""
    flags = {"done": terminated or truncated, "terminated": terminated, "truncated": truncated}
    states, next_states = (
        {key: torch.as_tensor(np.array(value)) for key, value in each.items()} for each in (obs, next_obs)
    )
    after = {
        **next_states,
        "reward": torch.tensor([reward]),
        **{key: torch.tensor([flag]) for key, flag in flags.items()},
    }
    step = {**states, "action": torch.as_tensor(np.array(action)), "next": after}
    return TensorDict(step, batch_size=[])


def as_arrays(batch: Any, space: Any) -> dict[str, Any]:
    """Return a batch, (B,), as `ReplayAdapter.sample` describes it; ``space`` is that of the observations."""
    arrays = {
        prefix + key: states[key].numpy().reshape(len(batch), *space[key].shape)
        for prefix, states in (("", batch), ("next_", batch["next"]))
        for key in space
    }
    arrays |= {key: batch["next", key].numpy()[:, 0] for key in ("reward", "terminated", "truncated")}
    return arrays | {"action": batch["action"].numpy()}


class TorchRL(ReplayAdapter):
    """``HERReplayBuffer`` with a ``LazyTensorStorage`` of one dimension; transitions are added one by one."""

    name: ClassVar[str] = f"TorchRL {version('torchrl')}"
    offers: ClassVar[AbstractSet[str]] = {
        "future", "final", "episode", "random", "changing goals", "recorded rewards", "infos",
        "images", "discrete", "save",
    }  # fmt: skip
    arguments: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        buffer_size: int,
        strategy: str,
        n_sampled_goal: int,
        max_episode_steps: int,
        num_envs: int = 1,
        seed: int = 0,
        **options: Any,
    ) -> None:
        functions: Any = env

        def reward(transitions: TensorDict) -> torch.Tensor:
            achieved, desired = transitions["next", "achieved_goal"], transitions["desired_goal"]
            infos = {"cost": transitions["cost"].numpy()}
            rewards = functions.compute_reward(achieved.numpy(), desired.numpy(), infos)
            return torch.as_tensor(rewards, dtype=torch.float32)[:, None]

        self._space: Any = env.observation_space
        self.buffer = HERReplayBuffer(
            reward,
            storage=LazyTensorStorage(buffer_size),
            her_ratio=n_sampled_goal / (n_sampled_goal + 1),
            strategy=strategy,
            **self.arguments,
        )

    def add(  # noqa: PLR0917 - as in the base class
        self,
        obs: dict[str, Any],
        action: np.ndarray,
        reward: float,
        next_obs: dict[str, Any],
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
        env_index: int = 0,
    ) -> None:
        """Add a transition; ``env_index`` is not used, since only one environment is supported."""
        step = as_tensordict(obs, action, reward, next_obs, terminated, truncated)
        step["cost"] = torch.tensor(info["cost"], dtype=torch.float64)
        self.buffer.add(step)

    def sample(self, batch_size: int) -> dict[str, Any]:
        """Return a batch as `ReplayAdapter.sample` describes it."""
        return as_arrays(self.buffer.sample(batch_size), self._space)

    def save(self, path: str) -> None:
        """Save the buffer in a folder."""
        self.buffer.dumps(path)

    def load(self, path: str) -> None:
        """Load the buffer from a folder."""
        self.buffer.loads(path)


class TorchRLNextGoals(TorchRL):
    """`TorchRL` with ``achieved_goal_key=("next", "achieved_goal")``."""

    name: ClassVar[str] = f"TorchRL {version('torchrl')}, goals after the step"
    arguments: ClassVar[dict[str, Any]] = {"achieved_goal_key": ("next", "achieved_goal")}
