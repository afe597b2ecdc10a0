"""PointGoalTask: base class of tasks whose goals are points in the plane."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from her_envs.task import Array, GoalTask, require_length


class PointGoalTask(GoalTask):
    """A task whose goal is a point, which is reached within a radius.

    Args:
        success_radius: Largest distance at which the goal counts as reached.
        largest_radius: Upper bound of ``success_radius``.

    Raises:
        ValueError: ``success_radius`` is out of range.
    """

    def __init__(self, success_radius: float, largest_radius: float) -> None:
        self.success_radius = require_length("success_radius", success_radius, largest_radius)
        self._squared_radius = np.float32(success_radius) ** 2

    def success(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Return whether the distance of the points is at most ``success_radius``.

        Squares are compared, since square roots of NumPy and torch may be rounded differently.
        """
        return _squared_distance(achieved_goal, desired_goal) <= self._squared_radius

    def distance(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Return the Euclidean distance."""
        # With the added axis, results for one goal equal those for a batch to the last bit.
        return (_squared_distance(achieved_goal, desired_goal)[None] ** np.float32(0.5))[0]


def make_observation_space(observation: spaces.Box, goal: spaces.Box) -> spaces.Dict:
    """Return the observation space with the given spaces of observations and goals."""
    return spaces.Dict({"observation": observation, "achieved_goal": goal, "desired_goal": goal})


def _squared_distance(achieved_goal: Array, desired_goal: Array) -> Array:
    difference = achieved_goal - desired_goal
    # By column, since a sum over an axis of length 2 takes sixteen times as long.
    return difference[..., 0] ** 2 + difference[..., 1] ** 2
