"""TaskVectorEnv: one GoalTask as many Gymnasium environments that step together."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from her_envs.base import TaskBase
from her_envs.pictures import mosaic, mosaic_columns
from her_envs.starts import as_options, draw_starts, replace_rows
from her_envs.task import Array, GoalTask, RewardType, State, require_choice, require_positive

MAX_SHOWN = 16
"""Environments that the window of ``human`` mode shows; the pictures of ``rgb_array`` are of all."""


class TaskVectorEnv(TaskBase, gym.vector.VectorEnv[dict[str, Any], Any, np.ndarray]):
    """Many goal environments made of one task, stepped by one call of its functions.

    Observations, rewards, flags and infos are those of `gymnasium.vector.SyncVectorEnv` with as many
    `TaskEnv`, masks, ``final_obs`` and ``final_info`` included. Nothing returned shares memory with what
    the environment keeps. One generator serves all environments.

    ``reset(options=...)`` takes ``"goal"`` and ``"state"`` as `TaskEnv` does, for one environment, which all
    get, or for all of them along a leading axis; and ``"reset_mask"``, (N,) bool, the environments to reset.

    Args:
        task: The rules.
        num_envs: Number of environments, N.
        autoreset_mode: What happens after the end of an episode: ``"NextStep"``, ``"SameStep"`` or
            ``"Disabled"``, or Gymnasium's `AutoresetMode`.
        max_steps: Steps after which an episode is truncated; by default the task's.
        max_episode_steps: Gymnasium's name for ``max_steps``.
        terminate_on_success: Whether success ends an episode; by default the task's.
        reward_type: ``"sparse"`` for -1 and 0, ``"dense"`` for minus the distance.
        render_mode: ``None``, ``"human"`` for a window with the first 16 environments, ``"rgb_array"`` for
            pictures without a display.
        render_size: Side of a picture, or of the window [pixels].

    Raises:
        TypeError: ``task`` is no task, or ``terminate_on_success`` neither True nor False.
        ValueError: An option has a value that it cannot have.
        gymnasium.error.DependencyNotInstalled: ``render_mode`` is given and pygame is missing.

    Example:
        >>> import numpy as np
        >>> from her_envs import PointReach, TaskVectorEnv
        >>> envs = TaskVectorEnv(PointReach(), num_envs=3)
        >>> observations, infos = envs.reset(seed=0)
        >>> observations, rewards, *_ = envs.step(np.zeros((3, 2)))
        >>> observations["achieved_goal"].shape, rewards
        ((3, 2), array([-1., -1., -1.]))
    """

    metadata = {  # noqa: RUF012 - as gym.vector.VectorEnv declares it
        "render_modes": ["human", "rgb_array"],
        "render_fps": 10,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        task: GoalTask,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_steps: int | None = None,
        max_episode_steps: int | None = None,
        terminate_on_success: bool | None = None,
        reward_type: RewardType = "sparse",
        render_mode: str | None = None,
        render_size: int = 512,
    ) -> None:
        if max_steps is not None and max_episode_steps is not None:
            raise ValueError(
                "max_steps and max_episode_steps are two names of one limit, "
                f"got {max_steps!r} and {max_episode_steps!r}; give one of them"
            )
        super().__init__(
            task,
            max_steps=max_episode_steps if max_steps is None else max_steps,
            terminate_on_success=terminate_on_success,
            reward_type=reward_type,
            render_mode=render_mode,
            render_size=render_size,
        )
        self.num_envs = require_positive("num_envs", num_envs)
        self.autoreset_mode = _as_mode(autoreset_mode)
        self.metadata = self.metadata | {"autoreset_mode": self.autoreset_mode}
        self.single_observation_space = task.observation_space
        self.single_action_space = task.action_space
        self.observation_space = batch_space(task.observation_space, self.num_envs)
        self.action_space = batch_space(task.action_space, self.num_envs)
        self._elapsed = np.zeros(self.num_envs, np.int64)
        self._ended = np.zeros(self.num_envs, bool)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Start new episodes.

        Args:
            seed: Seeds the one generator; ``None`` goes on with the present one.
            options: ``"goal"``, ``"state"`` and ``"reset_mask"``, see the class.

        Returns:
            The observations of all environments, and ``is_success`` with its mask ``_is_success``: the
            environments that were reset.

        Raises:
            TypeError: ``seed`` is a list, or ``options`` or a state of several parts is no dict.
            ValueError: An option is unknown or does not fit the task.
        """
        if isinstance(seed, list | tuple | np.ndarray):
            raise TypeError(
                f"seed must be a whole number or None, got {seed!r}; one generator serves all environments"
            )
        given = as_options(options)
        mask = self._as_mask(given.pop("reset_mask", None))
        super().reset(seed=seed)
        state, _ = self._restart(np.flatnonzero(mask), given)
        observations = self.task.observe(state)
        success = self.task.success(observations["achieved_goal"], observations["desired_goal"])
        if self._painter is not None:
            self._painter.replace(state)
            self._show()
        return observations, {"is_success": success & mask, "_is_success": mask}

    def step(
        self, actions: Any
    ) -> tuple[dict[str, Array], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one step in every environment.

        Args:
            actions: (N, A); continuous ones are clipped to the action space. The row of an environment that
                this step resets has no effect.

        Returns:
            Observations, rewards (N,) float64, terminations and truncations (N,) bool, and infos:
            ``is_success`` and, in mode SameStep, ``final_obs`` and ``final_info`` of episodes that ended,
            each with its mask.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun, or one has ended in mode Disabled.
            ValueError: The actions have a wrong shape or type, hold NaN, or are out of range.
        """
        state = self._require_steppable()
        valid = self._check.batch(actions, self.num_envs)
        self._state = self.task.step(state, valid, self.np_random)
        self._elapsed += 1
        restarted = np.flatnonzero(self._ended)
        if restarted.size:
            self._restart(restarted)
        observations = self.task.observe(self._state)
        success, rewards = self.task.outcome(
            observations["achieved_goal"], observations["desired_goal"], self.reward_type
        )
        rewards = rewards.astype(np.float64)
        rewards[restarted] = 0.0
        terminations = success & self.terminate_on_success
        truncations = (self._elapsed >= self.max_steps) & ~terminations
        self._ended = terminations | truncations
        infos = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._ended.any():
            infos = self._end_and_begin(observations, success)
        if self._painter is not None:
            self._painter.follow(self._state)
            self._show()
        infos |= {"is_success": success, "_is_success": np.ones(self.num_envs, bool)}
        return observations, rewards, terminations, truncations, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Draw the present states, and the ways to them.

        Returns:
            One picture (render_size, render_size, 3) uint8 an environment in mode ``"rgb_array"``, else None.

        Raises:
            gymnasium.error.ResetNeeded: There is no state to draw yet.
        """
        if self.render_mode == "human":
            self._show()
            return None
        return tuple(self._pictures(self._elapsed.tolist(), self.render_size)) or None

    def close_extras(self, **kwargs: Any) -> None:
        """Close the window, if there is one."""
        self._close_window()

    def _restart(
        self, rows: np.ndarray, options: dict[str, Any] | None = None
    ) -> tuple[State, dict[str, Array]]:
        """Start new episodes in ``rows``; return the state of all, and what the task shows of the new."""
        starts, observations = draw_starts(self.task, self.num_envs, self.np_random, options or {}, rows)
        self._state = starts if self._state is None else replace_rows(self._state, rows, starts)
        self._elapsed[rows], self._ended[rows] = 0, False
        return self._state, observations

    def _end_and_begin(self, observations: dict[str, Array], success: np.ndarray) -> dict[str, Any]:
        """Put first observations in the place of last ones, and return the last ones as infos."""
        ended = self._ended.copy()
        rows = np.flatnonzero(ended)
        last = {key: values[rows] for key, values in observations.items()}
        final_obs = np.full(self.num_envs, None, dtype=object)
        for i, row in enumerate(rows):
            final_obs[row] = {key: values[i] for key, values in last.items()}
        final_info = {"is_success": success & ended, "_is_success": ended.copy()}
        _, first = self._restart(rows)
        for key, values in first.items():
            observations[key][rows] = values
        success[rows] = False
        return {
            "final_obs": final_obs,
            "_final_obs": ended.copy(),
            "final_info": final_info,
            "_final_info": ended,
        }

    def _require_steppable(self) -> State:
        """Return the present state.

        Raises:
            gymnasium.error.ResetNeeded: There is none, or an episode that ended was not reset.
        """
        if self._state is None:
            raise ResetNeeded("cannot step: no episode has begun; call reset() first")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            ended = np.flatnonzero(self._ended).tolist()
            raise ResetNeeded(
                f"cannot step: the episodes of environments {ended} have ended; "
                'call reset(options={"reset_mask": terminations | truncations}) first'
            )
        return self._state

    def _as_mask(self, given: Any) -> np.ndarray:
        """Return which environments to reset, in memory of its own; all of them by default.

        Raises:
            ValueError: The mask is not bool of shape (N,), names none, or leaves one without an episode.
        """
        if given is None:
            return np.ones(self.num_envs, bool)
        mask: np.ndarray = np.array(given)
        if mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
            raise ValueError(
                f"reset option 'reset_mask' must be bool of shape ({self.num_envs},) with a True in it, "
                f"got {mask.dtype} of shape {mask.shape}: {mask}"
            )
        if self._state is None and not mask.all():
            raise ValueError(
                "reset option 'reset_mask' leaves out environments that never began; reset all first"
            )
        return mask

    def _show(self) -> None:
        if self.render_mode == "human" and self._painter is not None:
            steps = self._elapsed[:MAX_SHOWN].tolist()
            pictures = self._pictures(steps, self.render_size // mosaic_columns(len(steps)))
            caption = f"{type(self.task).__name__} | {len(steps)} of {self.num_envs} environments"
            self._painter.show(mosaic(pictures), caption, self.metadata["render_fps"])


def _as_mode(mode: AutoresetMode | str) -> AutoresetMode:
    if isinstance(mode, AutoresetMode):
        return mode
    require_choice("autoreset_mode", mode, tuple(known.value for known in AutoresetMode))
    return AutoresetMode(mode)
