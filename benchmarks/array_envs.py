"""Environments that return precomputed arrays, to measure the cost of wrappers and recorders."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from benchmarks.replay_task import ACTION_SPACE, OBSERVATION_SPACE, never_reached


class ArrayEnv(gym.Env[dict[str, np.ndarray], np.ndarray]):
    """A single environment that returns precomputed arrays."""

    observation_space, action_space = OBSERVATION_SPACE, ACTION_SPACE
    compute_reward = staticmethod(never_reached)

    def __init__(self, horizon: int) -> None:
        rng = np.random.default_rng(0)
        self._observations = [
            {key: rng.random(space.shape, np.float32) for key, space in OBSERVATION_SPACE.items()}
            for _ in range(horizon + 1)
        ]
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
        rng = np.random.default_rng(0)
        self._observations = [
            {
                key: rng.random((num_envs, *space.shape), np.float32)
                for key, space in OBSERVATION_SPACE.items()
            }
            for _ in range(8)
        ]
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
