"""PointGoalTask: base class of tasks whose goals are points in the plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_envs.arrays import copied
from her_envs.task import Array, GoalTask, State, require_length

if TYPE_CHECKING:
    from her_envs.canvas import Point


class PointGoalTask(GoalTask):
    """A task whose goal is a point. The goal is reached within ``success_radius`` of this point.

    The methods `observe` and `trail_points` work for states with the entries ``position``, (N, 2), and
    ``goal``; tasks with other entries override both methods. ``_scale`` is the factor from positions to the
    unit square.

    Args:
        success_radius: Largest distance at which the goal counts as reached.
        largest_radius: Upper bound of ``success_radius``.

    Raises:
        ValueError: ``success_radius`` is out of range.
    """

    _scale: float = 1.0

    def __init__(self, success_radius: float, largest_radius: float) -> None:
        self.success_radius = require_length("success_radius", success_radius, largest_radius)
        self._squared_radius = np.float32(success_radius) ** 2

    def observe(self, state: State) -> dict[str, Array]:
        """Return the position, as observation and as achieved goal."""
        return {
            "observation": copied(state["position"]),
            "achieved_goal": copied(state["position"]),
            "desired_goal": copied(state["goal"]),
        }

    def trail_points(self, state: State, index: int) -> tuple[Point, ...]:
        """Return the position of the point, the only position whose path is drawn."""
        return (self._scale * state["position"][index],)

    def success(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Return whether the distance of achieved and desired goal is at most ``success_radius``.

        Squares are compared, since square roots of NumPy and torch may be rounded differently.
        """
        return _squared_distance(achieved_goal, desired_goal) <= self._squared_radius

    def distance(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Return the Euclidean distance."""
        # With the added axis, results for one goal equal those for a batch to the last bit.
        return (_squared_distance(achieved_goal, desired_goal)[None] ** np.float32(0.5))[0]


def _squared_distance(achieved_goal: Array, desired_goal: Array) -> Array:
    difference = achieved_goal - desired_goal
    # By column, since a sum over an axis of length 2 takes sixteen times as long.
    return difference[..., 0] ** 2 + difference[..., 1] ** 2
