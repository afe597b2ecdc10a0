"""TaskEnv: a Gymnasium environment made from a `GoalTask`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from her_envs.base import TaskBase
from her_envs.canvas import Window
from her_envs.starts import copy_options, sample_starts


class TaskEnv(TaskBase, gym.Env[dict[str, Any], Any]):
    """A goal environment made from a task.

    Observations are dicts of ``observation``, ``achieved_goal`` and ``desired_goal``. Their arrays share no
    memory with each other or with the environment. ``info["is_success"]`` is a bool, at reset and at each
    step.

    `reset` has two options. ``"goal"`` is the desired goal, in the format of the task's state. For example,
    BitFlipping needs bits, even if its observations are images. ``"state"`` is a dict with all entries of the
    state except ``goal``; if there is only one such entry, its array is also accepted. Given values are used
    unchanged; missing values are sampled.

    Args:
        task: The task.
        max_steps: Steps after which an episode is truncated; by default ``task.max_steps``.
        terminate_on_success: Whether success terminates an episode; by default
            ``task.terminate_on_success``.
        reward_type: ``"sparse"`` for rewards of -1 and 0, ``"dense"`` for minus the distance.
        render_mode: ``None``, ``"human"`` for a window, ``"rgb_array"`` for pictures as arrays.
        render_size: Side of a picture [pixels].

    Raises:
        TypeError: ``task`` is not a `GoalTask`, its action space is neither Box nor Discrete, or
            ``terminate_on_success`` is not a bool.
        ValueError: The value of an option is not allowed.
        gymnasium.error.DependencyNotInstalled: ``render_mode`` is given and pygame is not installed.

    Example:
        >>> from her_envs import BitFlipping, TaskEnv
        >>> env = TaskEnv(BitFlipping(n_bits=3))
        >>> observation, info = env.reset(seed=0, options={"goal": [1, 1, 1], "state": [1, 1, 0]})
        >>> observation, reward, terminated, truncated, info = env.step(2)
        >>> observation["achieved_goal"], reward, terminated, truncated, info
        (array([1, 1, 1], dtype=int8), 0.0, True, False, {'is_success': True})
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 10}  # noqa: RUF012 - as gym.Env declares it

    _elapsed, _ended, _return, _success = 0, False, 0.0, False  # of the current episode
    _window: Window | None = None  # Gymnasium also closes an environment whose __init__ raised

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start a new episode.

        Args:
            seed: Seed of the random generator; with ``None`` the current generator is used.
            options: Start of the episode: ``"goal"`` and ``"state"``, as in the docstring of the class.

        Returns:
            The first observation, and ``{"is_success": bool}``.

        Raises:
            TypeError: ``options`` is not a dict; or ``"state"`` is not a dict, although states of the
                task have several entries apart from ``goal``.
            ValueError: An option is unknown, or its value does not fit the task.
        """
        given = copy_options(options)
        super().reset(seed=seed)
        self._state, observations = sample_starts(self.task, 1, self.np_random, given)
        observation = {key: rows[0] for key, rows in observations.items()}
        # Sampled starts are never solved; a start given by options can be.
        self._success = bool(given) and bool(
            self.task.success(observation["achieved_goal"], observation["desired_goal"])
        )
        self._elapsed, self._ended, self._return = 0, False, 0.0
        self._paint()
        return observation, {"is_success": self._success}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Take one step.

        Args:
            action: An action. Box actions are clipped to the action space.

        Returns:
            Observation, reward, terminated, truncated (by the time limit), and ``{"is_success": bool}``.

        Raises:
            gymnasium.error.ResetNeeded: `reset` was not called, or the episode has ended.
            ValueError: The action has a wrong shape or dtype, contains NaN, or is a Discrete action that is
                out of range.
        """
        if self._state is None or self._ended:
            reason = "after the end of an episode" if self._ended else "before the first episode"
            raise ResetNeeded(f"step() was called {reason}; call reset() first")
        # Comparing a scalar takes a tenth of the time of comparing an array of one element.
        is_integer = isinstance(action, np.integer) or type(action) is int
        if self._is_discrete and is_integer and self._lowest <= action <= self._highest:
            actions = np.array([action])
        else:
            given = np.asarray(action)
            if given.shape != self.task.action_space.shape:
                raise ValueError(f"action must have shape {self.task.action_space.shape}, got {given.shape}")
            actions = self._validate_actions(given[None])
        self._state = self.task.step(self._state, actions, self.np_random)
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
        self._paint()
        return observation, reward, terminated, truncated, {"is_success": self._success}

    def render(self) -> np.ndarray | None:
        """Draw the current state and the path of the episode.

        Returns:
            (render_size, render_size, 3) uint8 in mode ``"rgb_array"``, else None.

        Raises:
            gymnasium.error.ResetNeeded: `reset` was not called yet, and a render mode is given.
            RuntimeError: The render mode is ``"human"``, and no display is available.
        """
        pictures = self._draw_envs([self._elapsed])
        if self.render_mode == "rgb_array":
            return pictures[0]
        if self.render_mode == "human":
            self._window = self._window or Window()
            success = "success" if self._success else "no success"
            task = type(self.task).__name__
            title = f"{task} | step {self._elapsed} | return {self._return:.4g} | {success}"
            self._window.show(pictures[0], title, self.metadata["render_fps"])
        return None

    def close(self) -> None:
        """Close the window, if it is open."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_window": None}  # a copy opens its own window
