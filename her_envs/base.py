"""TaskBase: options, goal functions and rendering of the single and the vector environment of a task."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from her_envs.actions import ActionValidator
from her_envs.pictures import Painter
from her_envs.task import (
    REWARD_TYPES,
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
    _painter: Painter | None = None  # Gymnasium also closes an environment whose __init__ raised

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
        require_choice("reward_type", reward_type, REWARD_TYPES)
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
        self._validator = ActionValidator(task.action_space)
        if render_mode is not None:
            self._painter = Painter(task)
        self._state: State | None = None

    @property
    def state(self) -> State:
        """A copy of the current state: arrays by name, with one row for each environment.

        The entry ``goal`` is the desired goal. To start an episode in this state, pass
        ``goal`` as the reset option ``"goal"``, and the dict of the other entries as ``"state"``.

        Raises:
            gymnasium.error.ResetNeeded: `reset` was not called yet.
        """
        if self._state is None:
            raise ResetNeeded("state is not available before the first episode; call reset() first")
        return {name: values.copy() for name, values in self._state.items()}

    def compute_reward(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Array:
        """Return the reward of each pair of goals.

        Args:
            achieved_goal: (..., G) achieved goals, a NumPy array or a torch tensor.
            desired_goal: (..., G) desired goals, of the same type.
            info: Not used.

        Returns:
            (...) float32, of the same type.
        """
        return self.task.reward(achieved_goal, desired_goal, self.reward_type)

    def compute_terminated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Array:
        """Return whether the episode terminates, for each pair of goals.

        Args:
            achieved_goal: (..., G) achieved goals, a NumPy array or a torch tensor.
            desired_goal: (..., G) desired goals, of the same type.
            info: Not used.

        Returns:
            (...) bool, of the same type.
        """
        return self.task.success(achieved_goal, desired_goal) & self.terminate_on_success

    def _draw_envs(self, steps: list[int], size: int) -> list[np.ndarray]:
        """Draw the first ``len(steps)`` environments; ``steps`` are their elapsed steps."""
        if self._painter is None:
            gym.logger.warn(
                'render() needs a render_mode, got None; make the environment with render_mode="rgb_array"'
            )
            return []
        if self._state is None:
            raise ResetNeeded("render() cannot draw before the first episode; call reset() first")
        return [self._painter.draw_picture(index, count, size) for index, count in enumerate(steps)]
