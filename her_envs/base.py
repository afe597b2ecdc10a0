"""TaskBase, the base class of `TaskEnv` and `TaskVectorEnv`: options, actions, goal functions, rendering."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, get_args

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from her_envs.arrays import as_numpy, copied
from her_envs.canvas import AGENT, OBJECT, Canvas, require_pygame
from her_envs.task import (
    Array,
    GoalTask,
    RewardType,
    State,
    require_bool,
    require_choice,
    require_positive,
)


class TaskBase:
    """Base class of `TaskEnv` and `TaskVectorEnv`, which document the options."""

    metadata: dict[str, Any]
    render: Callable[[], Any]

    def __init__(
        self,
        task: GoalTask,
        *,
        max_steps: int | None = None,
        terminate_on_success: bool | None = None,
        reward_type: RewardType = "sparse",
        render_mode: str | None = None,
        render_size: int = 512,
    ) -> None:
        if not isinstance(task, GoalTask):
            raise TypeError(f"task must be an instance of GoalTask, such as BitFlipping(), got {task!r}")
        require_choice("reward_type", reward_type, get_args(RewardType))
        if render_mode is not None:
            require_choice("render_mode", render_mode, tuple(self.metadata["render_modes"]))
        self.task = task
        self.observation_space: spaces.Space[Any] = task.observation_space
        self.action_space = task.action_space
        self.max_steps = task.max_steps if max_steps is None else require_positive("max_steps", max_steps)
        ends = task.terminate_on_success if terminate_on_success is None else terminate_on_success
        self.terminate_on_success = require_bool("terminate_on_success", ends)
        self.reward_type = reward_type
        self.render_mode = render_mode
        self.render_size = require_positive("render_size", render_size)
        self._is_discrete = isinstance(task.action_space, spaces.Discrete)
        self._lowest, self._highest = action_bounds(task.action_space)
        if render_mode is not None:
            require_pygame()
        self._state: State | None = None
        self._past: deque[State] = deque(maxlen=500)  # for the trails; bounds the memory of long episodes

    @property
    def state(self) -> State:
        """A copy of the current state: arrays by name, with one row for each environment.

        The entry ``goal`` is the desired goal. To start an episode in this state, pass ``goal`` as the reset
        option ``"goal"``, and a dict of all other entries as the reset option ``"state"``.

        Raises:
            gymnasium.error.ResetNeeded: `reset` was not called yet.
        """
        if self._state is None:
            raise ResetNeeded("state is not available before the first episode; call reset() first")
        return {name: copied(values) for name, values in self._state.items()}

    def compute_reward(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Array:
        """Return the reward of each pair of goals, (...) float32, of the same type as the goals.

        Args:
            achieved_goal: (..., G) achieved goals, a NumPy array or a torch tensor.
            desired_goal: (..., G) desired goals, of the same type.
            info: Not used.
        """
        return self.task.reward(achieved_goal, desired_goal, self.reward_type)

    def compute_terminated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Array:
        """Return whether an episode terminates, (...) bool, for each pair of goals as in `compute_reward`."""
        return self.task.success(achieved_goal, desired_goal) & self.terminate_on_success

    def _validate_actions(self, given: np.ndarray) -> np.ndarray:
        """Return Box actions (N, A), clipped, or Discrete actions (N,); raise ValueError if invalid."""
        if not self._is_discrete:
            if given.dtype.kind not in "fiu":
                raise ValueError(f"action must contain numbers, got dtype {given.dtype}")
            if np.isnan(given).any():
                raise ValueError(f"action must not contain NaN, got {given[np.isnan(given).any(-1)][0]}")
            clipped: np.ndarray = given.clip(self._lowest, self._highest)
            return clipped.astype(self.task.action_space.dtype, copy=False)
        if given.dtype.kind not in "iu":
            raise ValueError(f"action must be an integer, got dtype {given.dtype}; convert it to int64")
        outside = (given < self._lowest) | (given > self._highest)
        if outside.any():
            raise ValueError(f"action must lie in {self._lowest}..{self._highest}, got {given[outside][0]}")
        return given

    def _paint(self, replace: bool = False) -> None:
        """Add the state to the trails, replacing the last state if ``replace``; render in human mode.

        After a reset of some environments, the last state is replaced, since the others have not moved.
        """
        if self.render_mode is None or self._state is None:
            return
        if replace and self._past:
            self._past.pop()
        self._past.append({name: as_numpy(values) for name, values in self._state.items()})
        if self.render_mode == "human":
            self.render()

    def _draw_envs(self, steps: list[int]) -> list[np.ndarray]:
        """Draw the first ``len(steps)`` environments; ``steps`` are the lengths of their episodes so far."""
        if self.render_mode is None:
            gym.logger.warn(
                'render() needs a render_mode, got None; make the environment with render_mode="rgb_array"'
            )
            return []
        if self._state is None:
            raise ResetNeeded("render() cannot draw before the first episode; call reset() first")
        past = list(self._past)
        return [draw_picture(self.task, past[-(n + 1) :], i, self.render_size) for i, n in enumerate(steps)]


def draw_picture(task: GoalTask, states: Sequence[State], index: int, size: int) -> np.ndarray:
    """Draw row ``index`` of the last state, with the trail of all states, (size, size, 3) uint8."""
    canvas = Canvas(size)
    places = [task.trail_points(state, index) for state in states]
    for path, color in zip(zip(*places, strict=True), (AGENT, OBJECT), strict=False):
        canvas.trail(path, color)
    task.draw(canvas, states[-1], index)
    return canvas.pixels()


def action_bounds(space: spaces.Space[Any]) -> tuple[Any, ...]:
    """Return the lowest and the highest action; raise TypeError if the space is neither Box nor Discrete."""
    if isinstance(space, spaces.Discrete):
        return int(space.start), int(space.start + space.n - 1)
    if not isinstance(space, spaces.Box):
        raise TypeError(f"action_space of the task must be Box or Discrete, got {space}")
    bounds = space.low, space.high
    # Clipping to a scalar is twenty times faster than clipping to a short array of equal bounds.
    return tuple(each.flat[0] if each.size and (each == each.flat[0]).all() else each for each in bounds)
