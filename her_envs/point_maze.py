"""PointMaze: move a point through a maze to a goal point; the path may first lead away from the goal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from her_envs.arrays import cast
from her_envs.floor_plan import FloorPlan, LayoutName
from her_envs.point_goal import PointGoalTask
from her_envs.task import Array, State, make_observation_space, require_length

if TYPE_CHECKING:
    from her_envs.canvas import Canvas


class PointMaze(PointGoalTask):
    """A point without velocity in a maze with cells of side 1.

    State: the position, float32 (2,): x from the left, y from the bottom [cells].
    Action: Box(-1, 1, (2,)); the point moves by ``step_size`` times the action, and slides along walls.
    Start and goal: independent and uniform over the free cells.
    Success: the Euclidean distance of point and goal is at most ``success_radius``.
    Reward: sparse, or minus the Euclidean distance (dense), which is misleading, since it ignores walls.
    Episode: ``(2 * farthest + 2) / step_size`` steps, rounded up, which is enough to reach every goal.
    ``farthest`` is the length of the path between the leftmost free cell of the lowest row that has one and
    the free cell farthest from it [cells]. Success does not end an episode.
    Source: PointMaze of Fu et al. 2020, D4RL (arXiv 2004.07219), without inertia.

    Args:
        layout: ``"open"``, ``"u"``, ``"four_rooms"``, ``"large"``, or rows of ``#`` (wall) and ``.`` (free),
            the top row first.
        success_radius: Largest distance at which the goal counts as reached [cells].
        step_size: Largest move along each axis in one step [cells].

    Raises:
        TypeError: ``layout`` is neither a name nor a list or tuple of strings.
        ValueError: ``layout`` is an unknown name, is not a rectangle of ``#`` and ``.``, has no free cell, or
            has free cells that are not connected; or a number is out of range.
    """

    def __init__(
        self,
        *,
        layout: LayoutName | Sequence[str] = "u",
        success_radius: float = 0.3,
        step_size: float = 0.25,
    ) -> None:
        # A radius of 1 or more would reach through a wall, which can be one cell thick.
        super().__init__(success_radius, largest_radius=0.5)
        self._step_size = require_length("step_size", step_size)
        self._plan = FloorPlan(layout)
        self.max_steps = math.ceil((self._plan.max_grid_distance + 2) / step_size)
        rows, columns = self._plan.free.shape
        self._scale = 1 / max(rows, columns)
        place = spaces.Box(np.zeros(2, np.float32), np.array([columns, rows], np.float32))
        self.observation_space = make_observation_space(place, goal=place)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, num_envs: int, rng: np.random.Generator) -> State:
        """Sample starts and goals uniformly from the free cells."""
        position, goal = self._plan.draw_points(2 * num_envs, rng).reshape(2, num_envs, 2)
        return {"position": position, "goal": goal}

    def start_error(self, state: State) -> str | None:
        """Return an error message if a start or goal from the reset options lies in a wall, else None."""
        for name, option in (("goal", "goal"), ("position", "state")):
            outside = ~self._plan.contains(state[name])
            if outside.any():
                return f"reset option {option!r} must lie in a free cell, got {state[name][outside][0]}"
        return None

    def step(self, state: State, action: Array, rng: np.random.Generator) -> State:
        """Move each point, and stop it at walls."""
        moves = self._step_size * cast(action, "float64")
        position = self._plan.move(state["position"], moves, self._step_size)
        return {"position": position, "goal": state["goal"]}

    def draw(self, canvas: Canvas, state: State, index: int) -> None:
        """Draw the walls, the goal with its success radius, and the point."""
        goal, position = state["goal"][index], state["position"][index]
        side = max(self._plan.free.shape)
        rows, columns = self._plan.free.shape
        for row, column in np.ndindex(side, side):
            if row >= rows or column >= columns or not self._plan.free[row, column]:
                canvas.wall((column / side, row / side), 1 / side)
        canvas.frame()
        canvas.goal(self._scale * goal, self._scale * self.success_radius)
        canvas.agent(self._scale * position, reached=bool(self.success(position, goal)))
