"""PointReach: move a point in the unit square to a goal point. The smallest continuous goal task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from her_envs.point_goal import PointGoalTask
from her_envs.task import Array, State, make_observation_space, require_length

if TYPE_CHECKING:
    from her_envs.canvas import Canvas


class PointReach(PointGoalTask):
    """A point without velocity in the unit square.

    State: the position, float32 (2,) in [0, 1].
    Action: Box(-1, 1, (2,)); the point moves by ``step_size`` times the action and stops at the walls.
    Start and goal: independent and uniform over the square.
    Success: the Euclidean distance is at most ``success_radius``.
    Episode: 50 steps; success does not end an episode.
    Source: the Reach task of Plappert et al. 2018 (arXiv 1802.09464), without the arm.

    Args:
        success_radius: Largest distance at which the goal counts as reached [side lengths of the square].
        step_size: Largest move along each axis in one step [side lengths of the square].

    Raises:
        ValueError: A number is out of range.
    """

    max_steps = 50

    def __init__(self, *, success_radius: float = 0.05, step_size: float = 0.05) -> None:
        # A radius of 0.71 around the middle would cover the whole square.
        super().__init__(success_radius, largest_radius=0.5)
        self._step_size = np.float32(require_length("step_size", step_size, 1))
        square = spaces.Box(0.0, 1.0, (2,), np.float32)
        self.observation_space = make_observation_space(square, goal=square)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, num_envs: int, rng: np.random.Generator) -> State:
        """Sample starts and goals uniformly from the square."""
        position, goal = rng.random((2, num_envs, 2), dtype=np.float32)
        return {"position": position, "goal": goal}

    def step(self, state: State, action: Array, rng: np.random.Generator) -> State:
        """Move each point, and stop it at the sides of the square."""
        position = (state["position"] + self._step_size * action).clip(0, 1)
        return {"position": position, "goal": state["goal"]}

    def draw(self, canvas: Canvas, state: State, index: int) -> None:
        """Draw the square, the goal with its success radius, and the point."""
        goal, position = state["goal"][index], state["position"][index]
        canvas.frame()
        canvas.goal(goal, self.success_radius)
        canvas.agent(position, reached=bool(self.success(position, goal)))
