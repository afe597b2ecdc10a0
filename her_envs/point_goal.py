"""PointGoalTask: what tasks share whose goals are places in the plane."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from her_envs.task import Array, GoalTask, require_length


class PointGoalTask(GoalTask):
    """A task whose goal is a place, reached within a radius.

    Args:
        success_radius: Distance within which the goal counts as reached.
        largest_radius: What ``success_radius`` may be at most.

    Raises:
        ValueError: ``success_radius`` is out of range.
    """

    def __init__(self, success_radius: float, largest_radius: float) -> None:
        self.success_radius = require_length("success_radius", success_radius, largest_radius)
        self._squared_radius = np.float32(success_radius) ** 2

    def success(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Whether the places are within ``success_radius`` of each other.

        Compares squares: a square root may round differently in NumPy and torch and move the threshold.
        """
        return _squared_distance(achieved_goal, desired_goal) <= self._squared_radius

    def distance(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Euclidean distance."""
        # The added axis makes one goal take the same code path as a batch, to the last bit.
        return (_squared_distance(achieved_goal, desired_goal)[None] ** np.float32(0.5))[0]


def goal_spaces(observation: spaces.Box, goal: spaces.Box) -> spaces.Dict:
    """Put the three spaces of a goal environment together."""
    return spaces.Dict({"observation": observation, "achieved_goal": goal, "desired_goal": goal})


def _squared_distance(achieved_goal: Array, desired_goal: Array) -> Array:
    difference = achieved_goal - desired_goal
    # Column by column: a sum over an axis of two takes sixteen times as long.
    return difference[..., 0] ** 2 + difference[..., 1] ** 2
