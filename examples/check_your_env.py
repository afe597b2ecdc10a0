"""Check a goal environment with one call. Run it with ``python -m examples.check_your_env``.

Replace ``Buttons`` by your environment, or run ``her check your_module:your_function``.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_wrappers import check_goal_env


class Buttons(gym.Env[Any, Any]):
    """Press four buttons until the lamps equal the goal. This environment has one fault."""

    def __init__(self) -> None:
        lamps = spaces.MultiBinary(4)
        self.observation_space = spaces.Dict(observation=lamps, achieved_goal=lamps, desired_goal=lamps)
        self.action_space = spaces.Discrete(4)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Switch all lamps off, and sample a goal."""
        super().reset(seed=seed)
        self._lamps = np.zeros(4, np.int8)
        self._goal = self.np_random.integers(2, size=4, dtype=np.int8)
        self._goal[0] = 1  # so that the goal is never reached at the start
        self._steps = 0
        return self._observe(), {"is_success": False}

    def step(self, action: np.int64) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Press one button, which switches its lamp."""
        self._lamps[action] ^= 1
        self._steps += 1
        reward = float(self.compute_reward(self._lamps, self._goal, {}))
        return self._observe(), reward, reward == 0, self._steps == 8, {"is_success": reward == 0}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> Any:
        """Return 0 where all lamps equal the goal, else -1, (..., 4), (..., 4) -> (...) float32."""
        return (achieved_goal == desired_goal).all(axis=-1).astype(np.float32) - 1

    def _observe(self) -> dict[str, np.ndarray]:
        return {
            "observation": self._lamps.copy(),
            "achieved_goal": self._lamps,  # the fault: the next step changes this array
            "desired_goal": self._goal.copy(),
        }


if __name__ == "__main__":
    report = check_goal_env(Buttons)
    print(report.text())  # in a test: report.raise_if_errors()
