"""TaskEnv: one GoalTask as one Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from her_envs.base import TaskBase
from her_envs.pictures import Painter
from her_envs.starts import as_options, draw_starts
from her_envs.task import GoalTask, RewardType, State


class TaskEnv(TaskBase, gym.Env[dict[str, Any], Any]):
    """A goal environment made of a task.

    Observations are dicts of ``observation``, ``achieved_goal`` and ``desired_goal`` in memory of their
    own. ``info["is_success"]`` is a bool at reset and at every step.

    ``reset(options=...)`` takes ``"goal"``, the desired goal as the task's state holds it (bits, not their
    image), and ``"state"``, the rest of the state: a dict of its named arrays, or the array alone where
    the task has one. What is given is used as it is; what is left out is drawn.

    Args:
        task: The rules.
        max_steps: Steps after which an episode is truncated; by default the task's.
        terminate_on_success: Whether success ends an episode; by default the task's.
        reward_type: ``"sparse"`` for -1 and 0, ``"dense"`` for minus the distance.
        render_mode: ``None``, ``"human"`` for a window, ``"rgb_array"`` for pictures without a display.
        render_size: Side of a picture [pixels].

    Raises:
        TypeError: ``task`` is no task, or ``terminate_on_success`` neither True nor False.
        ValueError: An option has a value that it cannot have.
        gymnasium.error.DependencyNotInstalled: ``render_mode`` is given and pygame is missing.

    Example:
        >>> from her_envs import BitFlipping, TaskEnv
        >>> env = TaskEnv(BitFlipping(n_bits=3))
        >>> observation, info = env.reset(seed=0, options={"goal": [1, 1, 1], "state": [1, 1, 0]})
        >>> observation, reward, terminated, truncated, info = env.step(2)
        >>> observation["achieved_goal"], reward, terminated, truncated, info
        (array([1, 1, 1], dtype=int8), 0.0, True, False, {'is_success': True})
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 10}  # noqa: RUF012 - as gym.Env declares it

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
        super().__init__(
            task,
            max_steps=max_steps,
            terminate_on_success=terminate_on_success,
            reward_type=reward_type,
            render_mode=render_mode,
            render_size=render_size,
        )
        self.observation_space = task.observation_space
        self.action_space = task.action_space
        self._elapsed = 0
        self._ended = False
        self._return = 0.0
        self._success = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start a new episode.

        Args:
            seed: Seeds the generator; ``None`` goes on with the present one.
            options: ``"goal"`` and ``"state"``, see the class.

        Returns:
            The first observation, and ``{"is_success": bool}``.

        Raises:
            TypeError: ``options``, or a state of several parts, is no dict.
            ValueError: An option is unknown or does not fit the task.
        """
        given = as_options(options)
        super().reset(seed=seed)
        self._state, observations = draw_starts(self.task, 1, self.np_random, given)
        observation = {key: rows[0] for key, rows in observations.items()}
        # Only a start that was asked for can be solved.
        self._success = bool(given) and bool(
            self.task.success(observation["achieved_goal"], observation["desired_goal"])
        )
        self._elapsed, self._ended, self._return = 0, False, 0.0
        if self._painter is not None:
            self._follow(self._painter, self._state)
        return observation, {"is_success": self._success}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Take one step.

        Args:
            action: An action; continuous ones are clipped to the action space.

        Returns:
            Observation, reward, whether the task ended, whether the time limit cut the episode short of
            its end, and ``{"is_success": bool}``.

        Raises:
            gymnasium.error.ResetNeeded: There is no episode under way.
            ValueError: The action has a wrong shape or type, holds NaN, or is out of range.
        """
        if self._state is None or self._ended:
            reason = "the episode has ended" if self._ended else "no episode has begun"
            raise ResetNeeded(f"cannot step: {reason}; call reset() first")
        self._state = self.task.step(self._state, self._check.one(action), self.np_random)
        self._elapsed += 1
        observation = {key: rows[0] for key, rows in self.task.observe(self._state).items()}
        success, reward = self.task.outcome(
            observation["achieved_goal"], observation["desired_goal"], self.reward_type
        )
        self._success, reward = bool(success), float(reward)
        terminated = self.terminate_on_success and self._success
        truncated = self._elapsed >= self.max_steps and not terminated
        self._ended = terminated or truncated
        self._return += reward
        if self._painter is not None:
            self._follow(self._painter, self._state)
        return observation, reward, terminated, truncated, {"is_success": self._success}

    def render(self) -> np.ndarray | None:
        """Draw the present state, and the way to it.

        Returns:
            (render_size, render_size, 3) uint8 in mode ``"rgb_array"``, else None.

        Raises:
            gymnasium.error.ResetNeeded: There is no state to draw yet.
        """
        pictures = self._pictures([self._elapsed], self.render_size)
        if self.render_mode == "rgb_array":
            return pictures[0]
        if self._painter is not None:
            self._painter.show(pictures[0], self._caption(), self.metadata["render_fps"])
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        self._close_window()

    def _follow(self, painter: Painter, state: State) -> None:
        painter.follow(state)
        if self.render_mode == "human":
            self.render()

    def _caption(self) -> str:
        success = "success" if self._success else "no success"
        return f"{type(self.task).__name__} | step {self._elapsed} | return {self._return:.4g} | {success}"
