"""Adapter for our buffer in TorchRL: `HindsightTensorDictReplayBuffer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from tensordict import TensorDict

from her_wrappers.conformance.adapter import ReplayAdapter
from her_wrappers.conformance.adapters.torchrl import as_arrays, as_tensordict
from her_wrappers.integrations.torchrl import HindsightTensorDictReplayBuffer
from her_wrappers.replay.priorities import Priority

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    import gymnasium as gym


FRAMES = 16
"""Number of steps of each environment in one call of ``extend``, like ``frames_per_batch`` of a collector."""


class OursForTorchRL(ReplayAdapter):
    """``HindsightTensorDictReplayBuffer``, extended by the steps of all environments together."""

    name: ClassVar[str] = "her-toolkit, for TorchRL"
    offers: ClassVar[AbstractSet[str]] = {
        "future", "final", "episode", "random", "geometric", "several environments", "end episode",
        "changing goals", "recorded rewards", "infos", "images", "discrete", "seed", "save",
        "save generator", "n-step", "priorities",
    }  # fmt: skip

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
        prioritized: bool = False,
        **options: Any,
    ) -> None:
        self._env = env
        self._space: Any = env.observation_space
        self._num_envs = num_envs
        self._gamma = options.get("gamma", 0.99)
        self._steps: list[TensorDict] = []
        self.buffer = HindsightTensorDictReplayBuffer.for_env(
            env,
            buffer_size=buffer_size,
            goal_selection_strategy=strategy,
            n_sampled_goal=n_sampled_goal,
            info_keys=("cost",),
            prioritized=Priority() if prioritized else None,
            seed=seed,
            **options,
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
        """Collect transitions, and add those of all environments after `FRAMES` steps."""
        step = as_tensordict(obs, action, reward, next_obs, terminated, truncated)
        step["next", "cost"] = torch.tensor(info["cost"], dtype=torch.float64)
        self._steps.append(step)
        if len(self._steps) == self._num_envs * FRAMES:
            self._extend()

    def _extend(self) -> None:
        """Add the collected transitions, (N, T)."""
        if self._steps:
            rows = [TensorDict.stack(self._steps[i :: self._num_envs]) for i in range(self._num_envs)]
            self._steps = []
            self.buffer.extend(TensorDict.stack(rows))

    def sample(self, batch_size: int) -> dict[str, Any]:
        """Return a batch of arrays."""
        self._extend()
        batch: Any = self.buffer.sample(batch_size)
        arrays = as_arrays(batch, self._space)
        if "priority_weight" in batch:
            arrays["weight"] = batch["priority_weight"].numpy()
        if "steps_to_next_obs" in batch:
            steps = batch["steps_to_next_obs"].numpy()[:, 0]
            arrays["discount"] = np.where(arrays["terminated"], 0, self._gamma**steps).astype(np.float32)
        return arrays | {"index": batch["index"].numpy()}

    def end_episode(self, env_index: int = 0) -> None:
        """Truncate the open episodes of all environments."""
        self._extend()
        self.buffer.truncate_open_episodes()

    def update_priorities(self, index: np.ndarray, priorities: np.ndarray) -> None:
        """Set priorities as TorchRL's training loops do."""
        columns = {"index": torch.as_tensor(index), "td_error": torch.as_tensor(priorities)}
        self.buffer.update_tensordict_priority(TensorDict(columns, batch_size=[len(index)]))

    def save(self, path: str) -> None:
        """Save the buffer to a file."""
        self._extend()
        self.buffer.dumps(path)

    def load(self, path: str) -> None:
        """Load the buffer from a file."""
        self.buffer.loads(path, self._env)
