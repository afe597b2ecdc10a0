"""parking-v0 of highway-env, with goal functions that agree with the rewards and terminations of step()."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import TimeLimit

MAX_EPISODE_STEPS = 100


class ParkingGoalFunctions(gym.Wrapper[Any, Any, Any, Any]):
    """Adds ``compute_terminated``, and adds the penalty of a crash to ``compute_reward``.

    In ``parking-v0``, the rewards of ``step`` contain this penalty, but ``compute_reward`` omits it, so
    relabeled crashes would have no penalty. ``compute_reward`` and ``compute_terminated`` read ``crashed``
    from the info.
    """

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the rewards, (...), for (..., 6) goals: the distance reward plus the penalty of a crash."""
        penalty: float = self.get_wrapper_attr("config")["collision_reward"]
        return self._distance_rewards(achieved_goal, desired_goal) + penalty * _crashed(info)

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return whether the car is parked or has crashed, (...) bool, for (..., 6) goals."""
        max_distance: float = self.get_wrapper_attr("config")["success_goal_reward"]
        return (self._distance_rewards(achieved_goal, desired_goal) > -max_distance) | _crashed(info)

    def _distance_rewards(self, achieved_goal: Any, desired_goal: Any) -> Any:
        return self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, {})


def _crashed(info: Any) -> Any:
    """Return the flag ``crashed`` of an info or a sequence of infos; False if an info lacks this key."""
    if isinstance(info, dict):
        return info.get("crashed", False)
    return np.array([each.get("crashed", False) for each in info], bool)


def make_parking(collision_reward: float = -5.0, **options: Any) -> gym.Env[Any, Any]:
    """Return ``parking-v0`` with `ParkingGoalFunctions`, and with episodes of at most 100 steps.

    With the default limit of 500 steps, a run of a given length would have few different starts and goals.

    Args:
        collision_reward: Reward of a step with a crash, in addition to the reward for the distance.
        **options: More arguments of the environment, such as ``render_mode``.
    """
    env = gym.make("highway_env:parking-v0", config={"collision_reward": collision_reward}, **options)
    return ParkingGoalFunctions(TimeLimit(env, MAX_EPISODE_STEPS))
