"""PointPush: push a puck to a goal place. The achieved goal is the puck's place, not the agent's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from her_envs.point_goal import PointGoalTask, goal_spaces
from her_envs.task import Array, State, require_length

if TYPE_CHECKING:
    from her_envs.canvas import Canvas, Point

AGENT_RADIUS = 0.03
PUCK_RADIUS = 0.05
RAIL = 0.15
"""How far the rail keeps the puck's centre from the sides: far enough for the agent to get behind it."""

_CONTACT = np.float32(AGENT_RADIUS + PUCK_RADIUS)
# A hair more than touching, so that rounding never moves a puck beside an agent at rest.
_CLEAR = _CONTACT * np.float32(1.0001)
_LOW, _HIGH = np.float32(RAIL), np.float32(1 - RAIL)


class PointPush(PointGoalTask):
    """A round agent pushes a round puck; neither has velocity.

    State: the places of the agent, in the unit square, and of the puck, within a rail 0.15 inside of it:
    float32 (2,) each.
    Action: Box(-1, 1, (2,)); the agent moves by ``step_size`` times the action and stops at the sides.
    Where it would overlap the puck, the puck gives way along the line of their centres until they touch;
    where the rail holds the puck, it slides along the rail and the agent stays behind.
    Start and goal: puck and goal independent and uniform within the rail; the agent uniform over the square,
    moved away from the puck where they would overlap.
    Success: the Euclidean distance of puck and goal is at most ``success_radius``.
    Reward: sparse, or dense minus that distance.
    Episode: 100 steps; success does not end it.
    Idea: the Push task of Plappert et al. 2018 (arXiv 1802.09464) without the arm.

    Args:
        success_radius: Distance [side lengths of the square] within which the goal counts as reached.
        step_size: Largest move of the agent along each axis in one step [side lengths of the square].

    Raises:
        ValueError: A number is out of range.
    """

    max_steps = 100
    terminate_on_success = False

    def __init__(self, *, success_radius: float = 0.05, step_size: float = 0.05) -> None:
        # A larger radius could cover the whole region of the puck from its middle.
        super().__init__(success_radius, largest_radius=0.35)
        # A longer step could take the agent past the puck's centre, and the puck would jump behind it.
        self._step_size = np.float32(require_length("step_size", step_size, 0.05))
        puck = spaces.Box(_LOW, _HIGH, (2,), np.float32)
        both = spaces.Box(
            np.array([0, 0, _LOW, _LOW], np.float32), np.array([1, 1, _HIGH, _HIGH], np.float32)
        )
        self.observation_space = goal_spaces(both, goal=puck)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, num_envs: int, rng: np.random.Generator) -> State:
        """Draw puck and goal within the rail, and the agent beside the puck."""
        agent, puck, goal = rng.random((3, num_envs, 2), dtype=np.float32)
        puck, goal = _LOW + (_HIGH - _LOW) * puck, _LOW + (_HIGH - _LOW) * goal
        return {"agent": _apart(agent, puck), "puck": puck, "goal": goal}

    def start_error(self, state: State) -> str | None:
        """Say whether an option puts the agent into the puck."""
        overlap = _distance(state["agent"] - state["puck"])[:, 0] < _CONTACT
        if not overlap.any():
            return None
        return (
            f"reset option 'state' must keep agent and puck {_CONTACT:g} apart, "
            f"got {state['agent'][overlap][0]} and {state['puck'][overlap][0]}"
        )

    def step(self, state: State, action: Array, rng: np.random.Generator) -> State:
        """Move the agent, then the puck out of its way, then the agent back where the puck is held."""
        agent = (state["agent"] + self._step_size * action).clip(0, 1)
        puck = _apart(state["puck"], agent).clip(_LOW, _HIGH)
        return {"agent": _apart(agent, puck), "puck": puck, "goal": state["goal"]}

    def observe(self, state: State) -> dict[str, Array]:
        """Show agent and puck; the puck's place is the achieved goal."""
        return {
            "observation": np.concatenate([state["agent"], state["puck"]], axis=1),
            "achieved_goal": state["puck"].copy(),
            "desired_goal": state["goal"].copy(),
        }

    def trail_points(self, state: State, index: int) -> tuple[Point, ...]:
        """Return the places of agent and puck."""
        return state["agent"][index], state["puck"][index]

    def draw(self, canvas: Canvas, state: State, index: int) -> None:
        """Draw the square, the goal with its success radius, the puck, and the agent."""
        goal, puck = state["goal"][index], state["puck"][index]
        canvas.frame()
        canvas.frame(inset=RAIL - PUCK_RADIUS)
        canvas.goal(goal, self.success_radius)
        canvas.puck(puck, PUCK_RADIUS, reached=bool(self.success(puck, goal)))
        canvas.agent(state["agent"][index], radius=AGENT_RADIUS)


def _apart(moved: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """Move discs that overlap others away until they touch: (N, 2), (N, 2) -> (N, 2)."""
    line = moved - fixed
    distance = _distance(line)
    direction = line / np.maximum(distance, np.finfo(np.float32).tiny)
    return np.where(distance < _CONTACT, fixed + _CLEAR * direction, moved)


def _distance(line: np.ndarray) -> np.ndarray:
    """Length of each row, (N, 2) -> (N, 1)."""
    length: np.ndarray = np.sqrt(line[:, :1] ** 2 + line[:, 1:] ** 2)
    return length
