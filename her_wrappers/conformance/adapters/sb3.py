"""Adapters for the ``HerReplayBuffer`` of Stable-Baselines3 and for its replacement in her-toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import numpy as np
import stable_baselines3 as sb3
from stable_baselines3.common.save_util import load_from_pkl, save_to_pkl
from stable_baselines3.common.vec_env import DummyVecEnv

from her_wrappers.conformance.adapter import ReplayAdapter
from her_wrappers.integrations.sb3 import HerReplayBuffer

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


class _GoalFunctions(gym.Env[Any, Any]):
    """The spaces and goal functions of an environment; DummyVecEnv requires a different object per copy."""

    def __init__(self, env: Any) -> None:
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.compute_reward, self.compute_terminated = env.compute_reward, env.compute_terminated


class StableBaselines3(ReplayAdapter):
    """``HerReplayBuffer`` with ``copy_info_dict=True``, on the CPU."""

    name: ClassVar[str] = f"Stable-Baselines3 {sb3.__version__}"
    offers: ClassVar[AbstractSet[str]] = {
        "future", "final", "episode", "several environments", "end episode", "changing goals",
        "recorded rewards", "infos", "images", "discrete", "save",
    }  # fmt: skip
    buffer_class: ClassVar[type[sb3.HerReplayBuffer]] = sb3.HerReplayBuffer

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
        self._space = functions.observation_space
        self._num_envs = num_envs
        self._steps: list[tuple[Any, ...]] = []
        self._envs = DummyVecEnv([lambda: _GoalFunctions(env)] * num_envs)
        self.buffer = self.buffer_class(
            buffer_size,
            self._space,
            env.action_space,
            env=self._envs,
            device="cpu",
            n_envs=num_envs,
            n_sampled_goal=n_sampled_goal,
            goal_selection_strategy=strategy,
            copy_info_dict=True,
            **self.arguments(seed),
            **options,
        )

    @staticmethod
    def arguments(seed: int) -> dict[str, Any]:
        """Return further constructor arguments of the buffer for a seed."""
        return {}

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
        """Add the transitions of all environments, after the last environment has made its step."""
        info = {**info, "TimeLimit.truncated": truncated and not terminated}
        self._steps.append((obs, next_obs, action, reward, terminated or truncated, info))
        if len(self._steps) == self._num_envs:
            states, next_states, actions, rewards, dones, infos = zip(*self._steps, strict=True)
            self._steps = []
            observations, next_observations = (
                {key: np.stack([state[key] for state in column]) for key in obs}
                for column in (states, next_states)
            )
            self.buffer.add(
                observations,
                next_observations,
                np.stack(actions),
                np.array(rewards),
                np.array(dones),
                list(infos),
            )

    def sample(self, batch_size: int) -> dict[str, Any]:
        """Return a batch as `ReplayAdapter.sample` describes it."""
        batch: Any = self.buffer.sample(batch_size)
        arrays = {
            prefix + key: values.numpy().reshape(batch_size, *self._space[key].shape)
            for prefix, states in (("", batch.observations), ("next_", batch.next_observations))
            for key, values in states.items()
        }
        arrays |= {"reward": batch.rewards.numpy()[:, 0], "terminated": batch.dones.numpy()[:, 0]}
        if batch.discounts is not None:
            arrays["discount"] = batch.discounts.numpy().reshape(-1)
        return arrays | {"action": batch.actions.numpy()}

    def end_episode(self, env_index: int = 0) -> None:
        """Truncate the episodes of all environments."""
        self.buffer.truncate_last_trajectory()

    def save(self, path: str) -> None:
        """Save the buffer as ``save_replay_buffer`` does."""
        save_to_pkl(path, self.buffer)

    def load(self, path: str) -> None:
        """Load the buffer as ``load_replay_buffer`` does."""
        self.buffer = load_from_pkl(path)
        self.buffer.set_env(self._envs)


class OursForStableBaselines3(StableBaselines3):
    """``her_wrappers.integrations.sb3.HerReplayBuffer`` with ``termination="recompute"``."""

    name: ClassVar[str] = "her-toolkit, for Stable-Baselines3"
    offers: ClassVar[AbstractSet[str]] = StableBaselines3.offers | {"random", "geometric", "seed", "n-step"}
    buffer_class: ClassVar[type[sb3.HerReplayBuffer]] = HerReplayBuffer

    @staticmethod
    def arguments(seed: int) -> dict[str, Any]:
        """Return the constructor arguments that the class of Stable-Baselines3 does not have."""
        return {"termination": "recompute", "seed": seed}
