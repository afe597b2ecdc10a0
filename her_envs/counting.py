"""Counting: a diagnostic task whose achieved goal is the time step, for debugging buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from her_envs.arrays import cast, copied, namespace
from her_envs.task import Array, GoalTask, State, make_observation_space, require_positive

if TYPE_CHECKING:
    from her_envs.canvas import Canvas

EPISODES = 2**24  # episode numbers are in ``range(EPISODES)``: float32 represents all of them exactly


class Counting(GoalTask):
    """Each state consists of an episode number and a step number; actions have no effect.

    State: float32 (2,): the episode number, which is random, and the step number. The state is also the
    achieved goal.
    Action: Discrete(2), without effect.
    Start and goal: an episode starts at step 0; the goal is a later step of the same episode, uniform over
    1..``length``.
    Success: episode number and step number equal the goal, which is true at one step of each episode.
    Episode: terminates on success, so its length is uniform over 1..``length``. With
    ``terminate_on_success=False`` every episode has ``length`` steps.
    Source: the counting environment of seals (HumanCompatibleAI), with goals.

    Args:
        length: Largest number of steps of an episode.

    Raises:
        ValueError: ``length`` is out of range.
    """

    terminate_on_success = True

    def __init__(self, *, length: int = 10) -> None:
        self.max_steps = require_positive("length", length)
        count = spaces.Box(0, EPISODES, (2,), np.float32)
        self.observation_space = make_observation_space(count, goal=count)
        self.action_space = spaces.Discrete(2)
        self._one_episode, self._one_step = np.eye(2, dtype=np.float32)

    def reset(self, num_envs: int, rng: np.random.Generator) -> State:
        """Return states at step 0 of new episodes, each with a later step of its episode as goal."""
        episode = rng.integers(EPISODES, size=num_envs)
        last = rng.integers(1, self.max_steps + 1, size=num_envs)
        goal = cast(namespace(last).concatenate([episode[:, None], last[:, None]], axis=1), "float32")
        return {"count": goal * self._one_episode, "goal": goal}

    def step(self, state: State, action: Array, rng: np.random.Generator) -> State:
        """Add 1 to the step number; the action is ignored."""
        return {"count": state["count"] + self._one_step, "goal": state["goal"]}

    def observe(self, state: State) -> dict[str, Array]:
        """Return episode number and step number, as observation and as achieved goal."""
        return {
            "observation": copied(state["count"]),
            "achieved_goal": copied(state["count"]),
            "desired_goal": copied(state["goal"]),
        }

    def success(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Return whether both goals have the same episode number and the same step number."""
        return (achieved_goal == desired_goal).all(-1)

    def distance(self, achieved_goal: Array, desired_goal: Array) -> Array:
        """Return the sum of the absolute differences of episode number and step number."""
        return abs(achieved_goal - desired_goal).sum(-1)

    def draw(self, canvas: Canvas, state: State, index: int) -> None:
        """Write the episode number, the step number and the goal's step number; draw a progress bar."""
        (episode, step), goal = state["count"][index], state["goal"][index, 1]
        canvas.text(f"episode {episode:.0f}", (0.5, 0.8))
        canvas.text(f"step {step:.0f}, goal {goal:.0f}", (0.5, 0.65), size=0.08)
        canvas.bar(step / self.max_steps, goal / self.max_steps)
