"""Write a `GoalTask`, and make environments from it. Run it with ``python -m examples.write_a_task``.

Train on it with ``her train examples/write_a_task.py:King-v0``.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_envs import GoalTask, TaskEnv, TaskVectorEnv
from her_envs.canvas import Canvas
from her_envs.task import Array, State
from her_wrappers import check_goal_env

MOVES = np.array([[0, 1], [1, 1], [1, 0], [1, -1], [0, -1], [-1, -1], [-1, 0], [-1, 1]])


class King(GoalTask):
    """A king on a chessboard moves to a goal square, and stops at the edges."""

    max_steps = 12
    terminate_on_success = True

    def __init__(self) -> None:
        square = spaces.MultiDiscrete([8, 8])
        self.observation_space = spaces.Dict(observation=square, achieved_goal=square, desired_goal=square)
        self.action_space = spaces.Discrete(8)

    def reset(self, num_envs: int, rng: np.random.Generator) -> State:
        """Sample squares for the king and the goal."""
        king, goal = rng.integers(8, size=(2, num_envs, 2))
        return {"king": king, "goal": goal}

    def step(self, state: State, action: Array, rng: np.random.Generator) -> State:
        """Move each king in the direction of its action."""
        return {"king": (state["king"] + MOVES[action]).clip(0, 7), "goal": state["goal"]}

    def observe(self, state: State) -> dict[str, Array]:
        """Return the squares of king and goal."""
        king, goal = state["king"], state["goal"]
        return {"observation": king.copy(), "achieved_goal": king.copy(), "desired_goal": goal.copy()}

    def success(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Return whether the king is on the goal square."""
        return (achieved_goal == desired_goal).all(-1)

    def distance(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Return the number of columns plus the number of rows between king and goal, for NumPy and torch."""
        return (abs(achieved_goal - desired_goal) * np.float32(1)).sum(-1)

    def draw(self, canvas: Canvas, state: State, index: int) -> None:
        """Draw the board as the unit square."""
        king, goal = state["king"][index], state["goal"][index]
        canvas.frame()
        canvas.goal((goal + 0.5) / 8, 1 / 16)
        canvas.agent((king + 0.5) / 8, reached=bool((king == goal).all()))


gym.register(
    "King-v0",
    entry_point=lambda **options: TaskEnv(King(), **options),
    vector_entry_point=lambda **options: TaskVectorEnv(King(), **options),
)

if __name__ == "__main__":
    print(check_goal_env(gym.make("King-v0")).summary())
    envs = gym.make_vec("King-v0", num_envs=1000)
    observations, infos = envs.reset(seed=0)
    observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
    print(f"{len(rewards)} kings moved, {terminations.sum()} reached their goals")
