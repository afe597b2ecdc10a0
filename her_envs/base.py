"""What the single and the vector environment of a task have in common: options, goal functions, pictures."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from her_envs.actions import action_check
from her_envs.pictures import Painter
from her_envs.task import (
    REWARD_TYPES,
    Array,
    GoalTask,
    RewardType,
    State,
    require_choice,
    require_flag,
    require_positive,
)


class TaskBase:
    """The options of an environment, checked, and its goal functions. See `TaskEnv` for the options.

    Raises:
        TypeError: ``task`` is no task, or ``terminate_on_success`` neither True nor False.
        ValueError: An option has a value that it cannot have.
        gymnasium.error.DependencyNotInstalled: ``render_mode`` is given and pygame is missing.
    """

    metadata: dict[str, Any]
    _painter: Painter | None = None  # here, since Gymnasium closes what was refused while it was made, too

    def __init__(
        self,
        task: GoalTask,
        *,
        max_steps: int | None,
        terminate_on_success: bool | None,
        reward_type: RewardType,
        render_mode: str | None,
        render_size: int,
    ) -> None:
        _require_task(task)
        require_choice("reward_type", reward_type, REWARD_TYPES)
        if render_mode is not None:
            require_choice("render_mode", render_mode, tuple(self.metadata["render_modes"]))
        self.task = task
        self.max_steps = task.max_steps if max_steps is None else require_positive("max_steps", max_steps)
        self.terminate_on_success = (
            task.terminate_on_success
            if terminate_on_success is None
            else require_flag("terminate_on_success", terminate_on_success)
        )
        self.reward_type = reward_type
        self.render_mode = render_mode
        self.render_size = require_positive("render_size", render_size)
        self._check = action_check(task.action_space)
        if render_mode is not None:
            self._painter = Painter(task)
        self._state: State | None = None

    @property
    def state(self) -> State:
        """A copy of the present state, one row an environment: named arrays, of which ``goal`` is the goal.

        A row of it starts an episode there: ``reset(options={"state": ..., "goal": ...})``.

        Raises:
            gymnasium.error.ResetNeeded: There is no state yet.
        """
        if self._state is None:
            raise ResetNeeded("there is no state: no episode has begun; call reset() first")
        return {name: values.copy() for name, values in self._state.items()}

    def compute_reward(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Array:
        """Reward of each pair of goals, of NumPy arrays or torch tensors.

        Args:
            achieved_goal: (..., G) goals reached.
            desired_goal: (..., G) goals asked for.
            info: Not used.

        Returns:
            (...) float32.
        """
        return self.task.reward(achieved_goal, desired_goal, self.reward_type)

    def compute_terminated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Array:
        """Whether reaching each goal ends the episode: (..., G), (..., G) -> (...) bool.

        Args:
            achieved_goal: (..., G) goals reached.
            desired_goal: (..., G) goals asked for.
            info: Not used.
        """
        return self.task.success(achieved_goal, desired_goal) & self.terminate_on_success

    def _pictures(self, steps: list[int], size: int) -> list[np.ndarray]:
        """Draw the first environments, of which each is ``steps`` into its episode; none without a mode.

        Raises:
            gymnasium.error.ResetNeeded: There is no state to draw yet.
        """
        if self._painter is None:
            gym.logger.warn(
                "render() without a render mode draws nothing; "
                'make the environment with render_mode="rgb_array"'
            )
            return []
        if self._state is None:
            raise ResetNeeded("cannot render: no episode has begun; call reset() first")
        return [self._painter.picture(index, count, size) for index, count in enumerate(steps)]

    def _close_window(self) -> None:
        if self._painter is not None:
            self._painter.close()


def _require_task(task: object) -> None:
    """Refuse what is no task, above all its class.

    Raises:
        TypeError: ``task`` is not made of a `GoalTask`.
    """
    if isinstance(task, type):
        name = task.__name__
        raise TypeError(f"task must be a GoalTask, got the class {name}; make one: {name}()")
    if not isinstance(task, GoalTask):
        raise TypeError(f"task must be a GoalTask, got {task!r}")
