"""TaskEnv: one GoalTask as one Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from her_envs.canvas import Window, draw_frame, require_pygame
from her_envs.task import (
    REWARD_TYPES,
    Array,
    GoalTask,
    RewardType,
    State,
    require_choice,
    require_positive,
)

MAX_REDRAWS = 1000
"""A start that already is the goal is drawn again this often before we say that there is no other."""


class TaskEnv(gym.Env[dict[str, Any], Any]):
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
        require_choice("reward_type", reward_type, REWARD_TYPES)
        if render_mode is not None:
            require_choice("render_mode", render_mode, tuple(self.metadata["render_modes"]))
            require_pygame()
        self.task = task
        self.observation_space = task.observation_space
        self.action_space = task.action_space
        self.max_steps = task.max_steps if max_steps is None else require_positive("max_steps", max_steps)
        self.terminate_on_success = (
            task.terminate_on_success if terminate_on_success is None else terminate_on_success
        )
        self.reward_type = reward_type
        self.render_mode = render_mode
        self.render_size = require_positive("render_size", render_size)
        self._window: Window | None = None
        self._state: State | None = None
        self._elapsed = 0
        self._ended = False

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
            ValueError: An option is unknown or does not fit the task.
        """
        super().reset(seed=seed)
        self._state = _draw_start(self.task, self.np_random, options or {})
        self._elapsed, self._ended = 0, False
        observation = self._observe()
        if self.render_mode == "human":
            self.render()
        return observation, {"is_success": self._success(observation)}

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
        valid = as_valid_actions(self.action_space, np.asarray(action)[None])
        self._state = self.task.step(self._state, valid, self.np_random)
        self._elapsed += 1
        observation = self._observe()
        success = self._success(observation)
        terminated = self.terminate_on_success and success
        truncated = self._elapsed >= self.max_steps and not terminated
        self._ended = terminated or truncated
        reward = float(self.compute_reward(observation["achieved_goal"], observation["desired_goal"], {}))
        if self.render_mode == "human":
            self.render()
        return observation, reward, terminated, truncated, {"is_success": success}

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

    def render(self) -> np.ndarray | None:
        """Draw the present state.

        Returns:
            (render_size, render_size, 3) uint8 in mode ``"rgb_array"``, else None.

        Raises:
            gymnasium.error.ResetNeeded: There is no state to draw yet.
        """
        if self.render_mode is None:
            gym.logger.warn(
                "render() without a render mode draws nothing; "
                'make the environment with render_mode="rgb_array"'
            )
            return None
        if self._state is None:
            raise ResetNeeded("cannot render: no episode has begun; call reset() first")
        frame = draw_frame(self.task, self._state, 0, self.render_size)
        if self.render_mode == "rgb_array":
            return frame
        if self._window is None:
            self._window = Window(type(self.task).__name__, self.metadata["render_fps"])
        self._window.show(frame)
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def __getstate__(self) -> dict[str, Any]:
        # A copy opens a window of its own.
        return self.__dict__ | {"_window": None}

    def _observe(self) -> dict[str, Any]:
        if self._state is None:
            raise ResetNeeded("no episode has begun; call reset() first")
        return {key: rows[0] for key, rows in self.task.observe(self._state).items()}

    def _success(self, observation: dict[str, Any]) -> bool:
        return bool(self.task.success(observation["achieved_goal"], observation["desired_goal"]))


def as_valid_actions(space: spaces.Space[Any], actions: np.ndarray) -> np.ndarray:
    """Return a batch of actions ready for `GoalTask.step`: clipped to a Box, checked for a Discrete.

    Args:
        space: Action space of one environment, Box or Discrete.
        actions: (N, A) actions.

    Raises:
        TypeError: The space is of another kind.
        ValueError: The actions have a wrong shape or type, hold NaN, or are out of range.
    """
    if actions.shape[1:] != space.shape:
        raise ValueError(f"action must have shape {space.shape}, got {actions.shape[1:]}")
    if isinstance(space, spaces.Box):
        if actions.dtype.kind not in "fiu":
            raise ValueError(f"action must hold numbers, got dtype {actions.dtype}")
        if np.isnan(actions).any():
            raise ValueError(f"action must not hold NaN, got {actions[np.isnan(actions).any(-1)][0]}")
        return actions.clip(space.low, space.high).astype(space.dtype, copy=False)
    if not isinstance(space, spaces.Discrete):
        raise TypeError(f"action space must be Box or Discrete, got {space}")
    if actions.dtype.kind not in "iu":
        raise ValueError(f"action must be a whole number, got dtype {actions.dtype}; cast it with int()")
    outside = (actions < space.start) | (actions >= space.start + space.n)
    if outside.any():
        raise ValueError(
            f"action must lie in {space.start}..{space.start + space.n - 1}, got {actions[outside][0]}"
        )
    return actions


def _draw_start(task: GoalTask, rng: np.random.Generator, options: dict[str, Any]) -> State:
    """Draw a start that is not yet solved, with the given parts in place.

    Raises:
        ValueError: The given parts do not fit the task, or leave only solved starts.
    """
    given: dict[str, np.ndarray] | None = None
    for _ in range(MAX_REDRAWS):
        state = task.reset(1, rng)
        if given is None:
            given = _given_parts(state, options)
        state |= {name: rows.copy() for name, rows in given.items()}
        observation = task.observe(state)
        if given and not _contains(task.observation_space, observation):
            raise ValueError(f"reset options lie outside the observation space: got {options}")
        if len(given) == len(state):
            return state
        if not task.success(observation["achieved_goal"], observation["desired_goal"]).any():
            return state
    raise ValueError(
        f"every one of {MAX_REDRAWS} starts drawn was solved already; "
        f"give another goal or state than {options or 'the defaults'}"
    )


def _given_parts(state: State, options: dict[str, Any]) -> State:
    """Return the parts of the state that the reset options name, shaped and typed as in ``state``.

    Raises:
        ValueError: There are no such parts, or the values do not fit.
    """
    unknown = options.keys() - {"goal", "state"}
    if unknown:
        raise ValueError(f"unknown reset option {min(unknown)!r}; choose from 'goal', 'state'")
    parts = {"goal": options["goal"]} if "goal" in options else {}
    if "state" in options:
        names = [name for name in state if name != "goal"]
        rest = options["state"]
        if not isinstance(rest, dict):
            if len(names) > 1:
                raise ValueError(f"reset option 'state' must be a dict of {names}, got {rest!r}")
            rest = {names[0]: rest}
        if unknown := rest.keys() - set(names):
            raise ValueError(f"reset option 'state' has an unknown part {min(unknown)!r}; it has {names}")
        parts |= rest
    return {name: _as_row(name, value, state[name]) for name, value in parts.items()}


def _as_row(name: str, value: Any, like: np.ndarray) -> np.ndarray:
    """Return ``value`` as a batch of one with the dtype of ``like``.

    Raises:
        ValueError: The shape differs, or the dtype cannot hold the value.
    """
    row = np.asarray(value)[None]
    if row.shape != like.shape:
        raise ValueError(f"reset option {name!r} must have shape {like.shape[1:]}, got {row.shape[1:]}")
    cast = row.astype(like.dtype)
    if like.dtype.kind in "iub" and not np.array_equal(cast, row):
        raise ValueError(f"reset option {name!r} must hold {like.dtype} numbers, got {value!r}")
    return cast


def _contains(space: spaces.Dict, observation: dict[str, Array]) -> bool:
    return all(space[key].contains(rows[0]) for key, rows in observation.items())
