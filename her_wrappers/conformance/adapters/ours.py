"""Adapter for the `HindsightReplayBuffer` of her-toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from her_wrappers.conformance.adapter import OFFERS, ReplayAdapter
from her_wrappers.recording.episode import Episode
from her_wrappers.replay.buffer import HindsightReplayBuffer
from her_wrappers.replay.priorities import Priority

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    import gymnasium as gym


class Ours(ReplayAdapter):
    """Adapter that adds transitions with one environment, and complete episodes with several environments."""

    name: ClassVar[str] = "her-toolkit"
    offers: ClassVar[AbstractSet[str]] = set(OFFERS)

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
        self._env, self._num_envs = env, num_envs
        self._open: list[list[tuple[Any, ...]]] = [[] for _ in range(num_envs)]
        functions: Any = env
        self._functions = {
            "compute_reward": functions.compute_reward,
            "compute_terminated": functions.compute_terminated,
        }
        self.buffer = HindsightReplayBuffer(
            env.observation_space,
            env.action_space,
            buffer_size=buffer_size,
            n_sampled_goal=n_sampled_goal,
            goal_selection_strategy=strategy,
            termination=self.termination,
            info_keys=("cost",),
            prioritized=Priority() if prioritized else None,
            seed=seed,
            **self._functions,
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
        """Add a transition; with several environments, collect it and add the episode at its end."""
        if self._num_envs == 1:
            self.buffer.add(obs, action, reward, next_obs, terminated, truncated, info)
            return
        steps = self._open[env_index]
        steps.append((obs, action, reward, next_obs, info["cost"]))
        if terminated or truncated:
            states = [step[0] for step in steps] + [next_obs]
            observations = {key: np.stack([state[key] for state in states]) for key in obs}
            actions, rewards, costs = (np.array([step[i] for step in steps]) for i in (1, 2, 4))
            self.buffer.add_episode(
                Episode(
                    observations,
                    actions,
                    rewards,
                    terminated=terminated,
                    truncated=truncated,
                    infos={"cost": costs},
                )
            )
            steps.clear()

    def sample(self, batch_size: int) -> dict[str, Any]:
        """Return a batch as `ReplayAdapter.sample` describes it."""
        batch = self.buffer.sample(batch_size)
        return {
            **batch.observations,
            "next_observation": batch.next_observations["observation"],
            "next_achieved_goal": batch.next_observations["achieved_goal"],
            "next_desired_goal": batch.next_observations["desired_goal"],
            "action": batch.actions,
            "reward": batch.rewards,
            "terminated": batch.terminations,
            "truncated": batch.truncations,
            "discount": batch.discounts,
            "index": batch.index,
            "weight": batch.weights,
        }

    def end_episode(self, env_index: int = 0) -> None:
        """Truncate the open episode."""
        self.buffer.truncate_open_episode()

    def update_priorities(self, index: np.ndarray, priorities: np.ndarray) -> None:
        """Set the priorities of sampled transitions."""
        self.buffer.update_priorities(index, priorities)

    def save(self, path: str) -> None:
        """Save the buffer."""
        self.buffer.save(path)

    def load(self, path: str) -> None:
        """Replace this buffer with a saved buffer."""
        self.buffer = HindsightReplayBuffer.load(path, **self._functions)
