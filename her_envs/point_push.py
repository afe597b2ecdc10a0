"""PointPush: push a puck to a goal point. The achieved goal is the position of the puck, not of the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from her_envs.arrays import copied, namespace
from her_envs.point_goal import PointGoalTask
from her_envs.task import Array, State, make_observation_space, require_length

if TYPE_CHECKING:
    from her_envs.canvas import Canvas, Point

AGENT_RADIUS = 0.03
PUCK_RADIUS = 0.05
RAIL = 0.15
"""Smallest distance of the puck's center from the sides, so that the agent can get behind the puck."""

_CONTACT = np.float32(AGENT_RADIUS + PUCK_RADIUS)
# Slightly larger than _CONTACT, so that rounding never moves a puck that an agent at rest touches.
_SEPARATION = _CONTACT * np.float32(1.0001)
_TINY = np.finfo(np.float32).tiny  # too small to change a positive distance
_LOW, _HIGH = np.float32(RAIL), np.float32(1 - RAIL)


class PointPush(PointGoalTask):
    """A round agent pushes a round puck; neither has velocity.

    State: the position of the agent, in the unit square, and of the puck, whose center stays inside a rail at
    distance 0.15 from the sides; float32 (2,) each.
    Action: Box(-1, 1, (2,)); the agent moves by ``step_size`` times the action and stops at the sides. If it
    would overlap the puck, the puck is moved away along the line of their centers until they only touch. A
    puck at the rail slides along it, and the agent is moved back until they only touch.
    Start and goal: puck and goal are independent and uniform inside the rail. The agent is uniform over the
    square, and is moved away from the puck if they would overlap.
    Success: the Euclidean distance of puck and goal is at most ``success_radius``.
    Reward: sparse, or minus the same distance (dense).
    Episode: 100 steps; success does not end an episode.
    Source: the Push task of Plappert et al. 2018 (arXiv 1802.09464), without the arm.

    Args:
        success_radius: Largest distance at which the goal counts as reached [side lengths of the square].
        step_size: Largest move of the agent along each axis in one step [side lengths of the square].

    Raises:
        ValueError: A number is out of range.
    """

    max_steps = 100

    def __init__(self, *, success_radius: float = 0.05, step_size: float = 0.05) -> None:
        # A radius of 0.5 around the middle would cover all positions of the puck.
        super().__init__(success_radius, largest_radius=0.35)
        # A longer step could move the agent past the puck's center, and push the puck backwards.
        self._step_size = np.float32(require_length("step_size", step_size, 0.05))
        puck = spaces.Box(_LOW, _HIGH, (2,), np.float32)
        both = spaces.Box(*np.array([[0, 0, _LOW, _LOW], [1, 1, _HIGH, _HIGH]], np.float32))
        self.observation_space = make_observation_space(both, goal=puck)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, num_envs: int, rng: np.random.Generator) -> State:
        """Sample puck and goal at least 0.15 from the sides, and the agent without overlap with the puck."""
        agent, puck, goal = rng.random((3, num_envs, 2), dtype=np.float32)
        puck, goal = _LOW + (_HIGH - _LOW) * puck, _LOW + (_HIGH - _LOW) * goal
        return {"agent": _separate(agent, puck), "puck": puck, "goal": goal}

    def start_error(self, state: State) -> str | None:
        """Return an error message if agent and puck overlap, else None."""
        overlap = _distance(state["agent"] - state["puck"])[:, 0] < _CONTACT
        if not overlap.any():
            return None
        return (
            f"reset option 'state' must place 'agent' and 'puck' at least {_CONTACT:g} apart, "
            f"got {state['agent'][overlap][0]} and {state['puck'][overlap][0]}"
        )

    def step(self, state: State, action: Array, rng: np.random.Generator) -> State:
        """Move the agent, then the puck if they overlap, then the agent back if the rail stopped the puck."""
        agent = (state["agent"] + self._step_size * action).clip(0, 1)
        puck = _separate(state["puck"], agent).clip(_LOW, _HIGH)
        return {"agent": _separate(agent, puck), "puck": puck, "goal": state["goal"]}

    def observe(self, state: State) -> dict[str, Array]:
        """Return agent and puck as observation, and the puck as achieved goal."""
        return {
            "observation": namespace(state["puck"]).concatenate([state["agent"], state["puck"]], axis=1),
            "achieved_goal": copied(state["puck"]),
            "desired_goal": copied(state["goal"]),
        }

    def trail_points(self, state: State, index: int) -> tuple[Point, ...]:
        """Return the positions of agent and puck."""
        return state["agent"][index], state["puck"][index]

    def draw(self, canvas: Canvas, state: State, index: int) -> None:
        """Draw the square, the goal with its success radius, the puck, and the agent."""
        goal, puck = state["goal"][index], state["puck"][index]
        canvas.frame()
        canvas.frame(inset=RAIL - PUCK_RADIUS)
        canvas.goal(goal, self.success_radius)
        canvas.puck(puck, PUCK_RADIUS, reached=bool(self.success(puck, goal)))
        canvas.agent(state["agent"][index], radius=AGENT_RADIUS)


def _separate(moved: Array, fixed: Array) -> Array:
    """Return ``moved``, (N, 2) centers of discs, shifted away from ``fixed`` where the two discs overlap."""
    line = moved - fixed
    distance = _distance(line)
    direction = line / (distance + _TINY)
    return namespace(moved).where(distance < _CONTACT, fixed + _SEPARATION * direction, moved)


def _distance(line: Array) -> Array:
    """Return the Euclidean norm of each row, (N, 2) -> (N, 1)."""
    return namespace(line).sqrt(line[:, :1] ** 2 + line[:, 1:] ** 2)
