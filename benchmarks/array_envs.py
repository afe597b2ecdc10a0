"""Environments without a simulator: with precomputed arrays, or with the spaces and rewards of FetchPush."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from benchmarks.replay_task import (
    ACTION,
    ACTION_SPACE,
    GOAL,
    HORIZON,
    OBSERVATION,
    OBSERVATION_SPACE,
    TOLERANCE,
    never_reached,
    observation_space,
)


def _random_observations(count: int, *leading: int) -> list[dict[str, np.ndarray]]:
    rng, shapes = np.random.default_rng(0), {key: space.shape for key, space in OBSERVATION_SPACE.items()}
    return [
        {key: rng.random((*leading, *shape), np.float32) for key, shape in shapes.items()}
        for _ in range(count)
    ]


class ArrayEnv(gym.Env[dict[str, np.ndarray], np.ndarray]):
    """A single environment that returns precomputed arrays."""

    observation_space, action_space = OBSERVATION_SPACE, ACTION_SPACE
    compute_reward = staticmethod(never_reached)

    def __init__(self, horizon: int) -> None:
        self._observations = _random_observations(horizon + 1)
        self._horizon, self._t = horizon, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Return the first observation."""
        self._t = 0
        return self._observations[0], {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return the next observation."""
        self._t += 1
        return self._observations[self._t], -1.0, False, self._t == self._horizon, {}


class ArrayVectorEnv(gym.vector.VectorEnv[dict[str, np.ndarray], np.ndarray, np.ndarray]):
    """A vector environment that returns precomputed arrays."""

    single_observation_space, single_action_space = OBSERVATION_SPACE, ACTION_SPACE
    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 - as VectorEnv declares it

    def __init__(self, num_envs: int, horizon: int) -> None:
        self.num_envs = num_envs
        self.observation_space, self.action_space = (
            batch_space(space, num_envs) for space in (OBSERVATION_SPACE, ACTION_SPACE)
        )
        self._observations = _random_observations(8, num_envs)
        self._rewards = np.full(num_envs, -1.0)
        self._flags = np.zeros(num_envs, bool), np.ones(num_envs, bool)
        self._horizon, self._t = horizon, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Return the first observation."""
        self._t = 0
        return self._observations[0], {}

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Return the next observations; after an episode ends, the first observations of the next one."""
        self._t = (self._t + 1) % (self._horizon + 1)
        truncated = self._flags[self._t == self._horizon]
        return self._observations[self._t % 8], self._rewards, self._flags[0], truncated, {}


class PushSpaces(gym.Env[dict[str, np.ndarray], np.ndarray]):
    """An environment with the spaces and the reward of FetchPush, without a simulator."""

    observation_space = observation_space(np.float64)  # as in Fetch
    action_space = ACTION_SPACE

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start an episode in a random state."""
        super().reset(seed=seed)
        self._state, self._goal = self.np_random.normal(size=OBSERVATION), self.np_random.normal(size=GOAL)
        self._t = 0
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Move the achieved goal by the action."""
        self._state[:ACTION] += 0.03 * action
        self._t += 1
        reward = self.compute_reward(self._state[:GOAL], self._goal, {})
        return self._observation(), float(reward), False, self._t == HORIZON, {"is_success": reward == 0}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: object) -> Any:
        """Return 0 for goals within 5 cm, else -1, (..., 3), (..., 3) -> (...)."""
        apart = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
        return -(apart > TOLERANCE).astype(np.float32)

    def _observation(self) -> dict[str, np.ndarray]:
        return {
            "observation": self._state.copy(),
            "achieved_goal": self._state[:GOAL].copy(),
            "desired_goal": self._goal.copy(),
        }
