"""TaskVectorEnv: a Gymnasium vector environment made from a `GoalTask`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.error import DependencyNotInstalled, ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from her_envs.base import TaskBase
from her_envs.starts import copy_options, replace_rows, sample_starts
from her_envs.task import Array, GoalTask, RewardType, State, require_choice, require_positive

if TYPE_CHECKING:
    from her_envs.tensors import TensorEpisodes


class TaskVectorEnv(TaskBase, gym.vector.VectorEnv[dict[str, Any], Any, np.ndarray]):
    """N goal environments made from one task, stepped together by vectorized functions.

    For the same starts and actions, `reset` and `step` return the same values as a
    `gymnasium.vector.SyncVectorEnv` of N `TaskEnv`, including ``final_obs``, ``final_info`` and the masks in
    the infos, such as ``_is_success``.
    Returned arrays share no memory with the environment. All N environments share one random generator.

    `reset` has three options. ``"goal"`` and ``"state"`` are the options of `TaskEnv`; a value for one
    environment is used for all N, and a value with a leading axis N has one row for each environment.
    ``"reset_mask"``, (N,) bool, selects the environments to reset; by default, all environments are reset.

    With ``device``, actions and all returned values are torch tensors on that device (rewards are float32),
    and `step` does not wait for the device, except with a ``render_mode``, which copies each state to the
    CPU. Therefore values are not validated: all actions are clipped, NaN is kept, and in mode Disabled an
    episode that has ended continues until its reset. In mode SameStep, the infos of every step contain the
    observations before any reset, ``final_obs``, and their success, ``final_info``, as dicts of tensors for
    all N environments; the masks ``_final_obs`` and ``_final_info`` show which episodes ended. Each step
    samples 3/2 N + 64 starts; environment i, if it is reset, gets the i-th unsolved start. If fewer than N
    are unsolved, environments can get the same start; only if all are solved, an episode begins at its goal.
    A seed gives the same episodes on the same type of device, but not the episodes of NumPy.

    Args:
        task: The task.
        num_envs: Number of environments, N.
        autoreset_mode: When an environment is reset after the end of its episode: ``"NextStep"`` (default),
            ``"SameStep"`` (default with a device) or ``"Disabled"``, or an `AutoresetMode` of Gymnasium.
        max_steps: Steps after which an episode is truncated; by default ``task.max_steps``.
        terminate_on_success: Whether success terminates an episode; by default
            ``task.terminate_on_success``.
        reward_type: ``"sparse"`` for rewards of -1 and 0, ``"dense"`` for minus the distance.
        render_mode: ``None``, or ``"rgb_array"`` for pictures as arrays.
        render_size: Side of a picture [pixels].
        device: A torch device such as ``"cuda"``, if the task supports tensors; None for NumPy arrays.

    Raises:
        TypeError: ``task`` is not a `GoalTask`, its action space is neither Box nor Discrete, or
            ``terminate_on_success`` is not a bool.
        ValueError: The value of an option is not allowed.
        gymnasium.error.DependencyNotInstalled: ``render_mode`` needs pygame, or ``device`` needs torch.

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
        "render_modes": ["rgb_array"],
        "render_fps": 10,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        task: GoalTask,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str | None = None,
        max_steps: int | None = None,
        terminate_on_success: bool | None = None,
        reward_type: RewardType = "sparse",
        render_mode: str | None = None,
        render_size: int = 512,
        device: Any = None,
    ) -> None:
        super().__init__(
            task,
            max_steps=max_steps,
            terminate_on_success=terminate_on_success,
            reward_type=reward_type,
            render_mode=render_mode,
            render_size=render_size,
        )
        self.num_envs = require_positive("num_envs", num_envs)
        if autoreset_mode is None:
            autoreset_mode = AutoresetMode.NEXT_STEP if device is None else AutoresetMode.SAME_STEP
        if not isinstance(autoreset_mode, AutoresetMode):
            require_choice("autoreset_mode", autoreset_mode, tuple(mode.value for mode in AutoresetMode))
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = self.metadata | {"autoreset_mode": self.autoreset_mode}
        self.single_observation_space = task.observation_space
        self.single_action_space = task.action_space
        self.observation_space = batch_space(task.observation_space, self.num_envs)
        self.action_space = batch_space(task.action_space, self.num_envs)
        self._elapsed = np.zeros(self.num_envs, np.int64)
        self._ended = np.zeros(self.num_envs, bool)
        self.device: Any = None
        self._on_device: TensorEpisodes | None = None
        if device is not None:
            try:
                from her_envs.tensors import TensorEpisodes  # noqa: PLC0415 - it imports torch
            except ImportError as error:
                raise DependencyNotInstalled("device needs torch; run: pip install torch") from error
            self._on_device = TensorEpisodes(self, device)
            self.device = self._on_device.device

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Start new episodes in all environments, or in the environments of the option ``"reset_mask"``.

        Args:
            seed: Seed of the random generator, which all environments share; with ``None`` the current
                generator is used.
            options: ``"goal"``, ``"state"`` and ``"reset_mask"``; the docstring of the class explains them.

        Returns:
            The current observations of all N environments, and a dict of infos. ``_is_success``, (N,) bool,
            marks the environments that were reset. ``is_success``, (N,) bool, is True for reset
            environments whose episode begins at its goal.

        Raises:
            TypeError: ``seed`` is a list, a tuple or an array; ``options`` is not a dict; or ``"state"`` is
                not a dict, although states of the task have several entries apart from ``goal``.
            ValueError: An option is unknown, or its value does not fit the task.
        """
        if isinstance(seed, list | tuple | np.ndarray):
            raise TypeError(f"seed must be one integer for all environments, or None, got {seed!r}")
        given = copy_options(options)
        if self._on_device is not None:
            super().reset(seed=seed)
            self._state, result = self._on_device.reset(self._state, given, self.np_random)
            self._paint(replace=True)
            return result
        mask = self._as_mask(given.pop("reset_mask", None))
        super().reset(seed=seed)
        state = self._start_episodes(np.flatnonzero(mask), given)[0]
        observations = self.task.observe(state)
        success = self.task.success(observations["achieved_goal"], observations["desired_goal"])
        self._paint(replace=True)
        return observations, {"is_success": success & mask, "_is_success": mask}

    def step(self, actions: Any) -> tuple[dict[str, Array], Array, Array, Array, dict[str, Any]]:
        """Take one step in every environment.

        Args:
            actions: Box actions (N, A), which are clipped to the action space, or Discrete actions (N,).
                Actions of environments that are reset in this step must be valid, but have no effect.

        Returns:
            Observations, rewards (N,) float64, terminations and truncations (N,) bool, and infos:
            ``is_success`` and, in mode SameStep, ``final_obs`` and ``final_info`` of episodes that ended.
            Each of these infos has a mask, (N,) bool, whose name has a leading underscore (``_is_success``).

        Raises:
            gymnasium.error.ResetNeeded: `reset` was not called, or an episode has ended in mode Disabled.
            ValueError: The actions have a wrong shape or dtype, contain NaN, or are Discrete actions that are
                out of range. With ``device``, actions are not a tensor on it, or have a wrong shape or dtype.
        """
        if self._state is None:
            raise ResetNeeded("step() was called before the first episode; call reset() first")
        if self._on_device is not None:
            self._state, stepped = self._on_device.step(self._state, actions)
            self._paint()
            return stepped
        restarted = np.flatnonzero(self._ended)
        if self.autoreset_mode is AutoresetMode.DISABLED and restarted.size:
            raise ResetNeeded(
                f"step() was called after the end of the episodes of environments {restarted.tolist()}; "
                'call reset(options={"reset_mask": terminations | truncations}) first'
            )
        given = np.asarray(actions)
        if given.shape != self.action_space.shape:
            raise ValueError(f"actions must have shape {self.action_space.shape}, got {given.shape}")
        self._state = self.task.step(self._state, self._validate_actions(given), self.np_random)
        self._elapsed += 1
        if restarted.size:
            self._start_episodes(restarted)
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
            infos = self._restart_ended(observations, success)
        self._paint()
        infos |= {"is_success": success, "_is_success": np.ones(self.num_envs, bool)}
        return observations, rewards, terminations, truncations, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Draw the current states and the paths of the episodes.

        Returns:
            N pictures, (render_size, render_size, 3) uint8 each, or None without a render mode.

        Raises:
            gymnasium.error.ResetNeeded: `reset` was not called yet, and a render mode is given.
        """
        elapsed = self._elapsed if self._on_device is None else self._on_device.elapsed
        return tuple(self._draw_envs(elapsed.tolist())) or None

    def _start_episodes(
        self, rows: np.ndarray, options: dict[str, Any] | None = None
    ) -> tuple[State, dict[str, Array]]:
        """Start episodes in ``rows``; return the state of all N, and the first observations of ``rows``."""
        starts, observations = sample_starts(self.task, self.num_envs, self.np_random, options or {}, rows)
        self._state = starts if self._state is None else replace_rows(self._state, rows, starts)
        self._elapsed[rows], self._ended[rows] = 0, False
        return self._state, observations

    def _restart_ended(self, observations: dict[str, Array], success: np.ndarray) -> dict[str, Any]:
        """Reset ended environments, overwrite their rows of the arguments, and return the final infos."""
        ended = self._ended.copy()
        rows = np.flatnonzero(ended)
        final_obs = np.full(self.num_envs, None, dtype=object)
        for row in rows:
            final_obs[row] = {key: values[row].copy() for key, values in observations.items()}
        final_info = {"is_success": success & ended, "_is_success": ended.copy()}
        _, first = self._start_episodes(rows)
        for key, values in first.items():
            observations[key][rows] = values
        success[rows] = False
        return {
            "final_obs": final_obs,
            "_final_obs": ended.copy(),
            "final_info": final_info,
            "_final_info": ended,
        }

    def _as_mask(self, given: Any) -> np.ndarray:
        """Return a copy of the option ``reset_mask``, (N,) bool; True for all environments by default."""
        if given is None:
            return np.ones(self.num_envs, bool)
        mask: np.ndarray = np.array(given)
        is_first = self._state is None
        is_valid = mask.shape == (self.num_envs,) and mask.dtype == bool
        if not is_valid or not (mask.all() if is_first else mask.any()):
            needed = "only True in the first reset" if is_first else "at least one True"
            raise ValueError(
                f"reset option 'reset_mask' must have dtype bool and shape ({self.num_envs},), with "
                f"{needed}, got dtype {mask.dtype} and shape {mask.shape}: {mask}"
            )
        return mask
