"""Repair wrappers: they fix the faults for which a report names them, or add the goal interface."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from her_wrappers.data.trees import copy_tree
from her_wrappers.goals.interface import OBSERVATION_KEYS, goal_spaces
from her_wrappers.goals.success_flag import flag_name
from her_wrappers.support.arguments import require_flag

Env: TypeAlias = gym.Env[Any, Any]
Info: TypeAlias = dict[str, Any]
AchievedGoal: TypeAlias = Callable[[Any, Info], Any]
SampleGoal: TypeAlias = Callable[[Any, Info, np.random.Generator], Any]
Success: TypeAlias = Callable[[Any, Any], Any]


class _Repair(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Base class of wrappers that change observations and infos in their method `_repair`."""

    def __init__(self, env: Env, **options: Any) -> None:
        RecordConstructorArgs.__init__(self, **options)
        super().__init__(env)

    def _repair(self, observation: Any, info: Info) -> tuple[Any, Info]:
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Reset the environment, see `gymnasium.Env.reset`, and return the repaired observation and info."""
        return self._repair(*self.env.reset(seed=seed, options=options))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Step the environment, see `gymnasium.Env.step`, and return the repaired observation and info."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        observation, info = self._repair(observation, info)
        return observation, reward, terminated, truncated, info


class CopyObservation(_Repair):
    """Copies observations, infos and actions, for environments that reuse their arrays (GE301, GE302)."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Step the environment with a copy of the action."""
        return super().step(copy_tree(action))

    def _repair(self, observation: Any, info: Info) -> tuple[Any, Info]:
        return copy_tree(observation), copy_tree(info)


class CastObservation(_Repair):
    """Casts observations to the dtypes of their space, and lists to arrays (rule GE005).

    Shapes and bounds are not corrected. The cast changes values that the dtype of the space cannot hold.
    """

    def _repair(self, observation: Any, info: Info) -> tuple[Any, Info]:
        return _cast(self.observation_space, observation), info


def _cast(space: spaces.Space[Any], value: Any) -> Any:
    if isinstance(space, spaces.Dict):
        known = space.spaces
        return {key: _cast(known[key], part) if key in known else part for key, part in value.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_cast(part, value[i]) for i, part in enumerate(space))
    return value if space.dtype is None else np.asarray(value, dtype=space.dtype)


class BooleanSuccess(_Repair):
    """Sets ``info["is_success"]`` to a bool, at reset and at every step (rules GE201, GE203).

    Without ``success``, the flag is read from ``info["is_success"]`` or ``info["success"]``. If the info has
    neither key, the flag is True if ``compute_reward(achieved_goal, desired_goal, info)`` is at least
    ``compute_reward(achieved_goal, achieved_goal, info)``, the reward of an exactly reached goal.

    Args:
        env: A goal environment.
        success: Function ``(achieved_goal, desired_goal) -> bool`` that computes the flag, or None.

    Raises:
        ValueError: ``env`` is not a goal environment.
    """

    def __init__(self, env: Env, success: Success | None = None) -> None:
        super().__init__(env, success=success)
        goal_spaces(env)
        self._success = success

    def _repair(self, observation: Any, info: Info) -> tuple[Any, Info]:
        achieved, desired = observation["achieved_goal"], observation["desired_goal"]
        if self._success is not None:
            success = self._success(achieved, desired)
        elif (name := flag_name(info)) is not None:
            success = np.all(info[name])
        else:  # a goal that is reached exactly has the highest reward
            compute_reward = self.get_wrapper_attr("compute_reward")
            success = compute_reward(achieved, desired, info) >= compute_reward(achieved, achieved, info)
        return observation, info | {"is_success": bool(success)}


class AsGoalEnv(_Repair):
    """Gives a plain environment the goal interface (rules GE001 to GE003).

    ``step`` and ``compute_reward`` return the reward 0 on success and -1 otherwise, instead of the reward of
    the environment. ``info["is_success"]`` is set. Terminations of the environment are kept.

    Args:
        env: The environment, whose observation becomes ``observation["observation"]``.
        achieved_goal: Function ``(observation, info) -> goal`` that returns the achieved goal.
        sample_goal: Function ``(observation, info, rng) -> goal`` that returns the desired goal, called by
            ``reset``.
        success: Function ``(achieved_goal, desired_goal) -> bools`` for goals with any leading axes:
            (..., G), (..., G) -> (...).
        goal_space: Space of the goals, which are cast to its dtype. ``reset`` and ``step`` raise ValueError
            for goals of another shape.
        terminate_on_success: Whether success terminates an episode.

    Raises:
        TypeError: ``terminate_on_success`` is not a bool.

    Example:
        >>> env = AsGoalEnv(
        ...     gym.make("MountainCarContinuous-v0"),
        ...     achieved_goal=lambda observation, info: observation[:1],
        ...     sample_goal=lambda observation, info, rng: rng.uniform(-1, 0.5, 1),
        ...     success=lambda achieved, desired: abs(achieved - desired).max(-1) < 0.1,
        ...     goal_space=spaces.Box(-1.2, 0.6, (1,)),
        ... )
        >>> observation, info = env.reset(seed=0)
        >>> sorted(observation), env.compute_reward(np.zeros((3, 1)), np.ones((3, 1)), [{}] * 3)
        (['achieved_goal', 'desired_goal', 'observation'], array([-1., -1., -1.], dtype=float32))
    """

    def __init__(
        self,
        env: Env,
        *,
        achieved_goal: AchievedGoal,
        sample_goal: SampleGoal,
        success: Success,
        goal_space: spaces.Box,
        terminate_on_success: bool = False,
    ) -> None:
        functions = {"achieved_goal": achieved_goal, "sample_goal": sample_goal, "success": success}
        super().__init__(env, **functions, goal_space=goal_space, terminate_on_success=terminate_on_success)
        self._achieved_goal, self._sample_goal, self._success = achieved_goal, sample_goal, success
        self._terminates = require_flag("terminate_on_success", terminate_on_success)
        self._goal_space = goal_space
        self._goal: Any = None
        self.observation_space = spaces.Dict({
            "observation": env.observation_space,
            "achieved_goal": goal_space,
            "desired_goal": goal_space,
        })

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Reset the environment and sample the desired goal.

        Args:
            seed: See `gymnasium.Env.reset`.
            options: Options of the environment, and the option ``"goal"``, (G,), which is the desired goal.

        Raises:
            ValueError: A goal does not have the shape of the goal space.
        """
        own = dict(options or {})
        goal = own.pop("goal", None)
        observation, info = self.env.reset(seed=seed, options=own or None)
        if goal is None:
            goal = self._sample_goal(observation, info, self.np_random)
        self._goal = self._as_goal(goal)
        return self._repair(observation, info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """Step the environment; success gives reward 0, and ends the episode if ``terminate_on_success``."""
        observation, _, terminated, truncated, info = super().step(action)
        goals = observation["achieved_goal"], observation["desired_goal"]
        terminated = bool(terminated or self.compute_terminated(*goals, info))
        return observation, float(self.compute_reward(*goals, info)), terminated, truncated, info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return 0 where ``success`` is True and -1 elsewhere, (...) float32, for (..., G) goals."""
        return np.asarray(self._success(achieved_goal, desired_goal), np.float32)[()] - np.float32(1)

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return whether (..., G) goals are reached, (...) bool; False without ``terminate_on_success``."""
        return np.asarray(self._success(achieved_goal, desired_goal), bool)[()] & self._terminates

    def _repair(self, observation: Any, info: Info) -> tuple[Any, Info]:
        achieved, desired = self._as_goal(self._achieved_goal(observation, info)), self._goal.copy()
        goals = {"observation": copy_tree(observation), "achieved_goal": achieved, "desired_goal": desired}
        return goals, info | {"is_success": bool(self._success(achieved, desired))}

    def _as_goal(self, goal: Any) -> Any:
        own = np.array(goal, dtype=self._goal_space.dtype)
        if own.shape != self._goal_space.shape:
            raise ValueError(
                f"goals must have the shape {self._goal_space.shape} of goal_space, got {own.shape}; correct "
                "the function passed as achieved_goal= or sample_goal=, or the option 'goal' of reset()"
            )
        return own


class FlattenGoalObservation(_Repair):
    """Flattens observations and goals that are neither vectors nor images.

    Discrete values become one-hot vectors; the parts of Dict and Tuple values are flattened and concatenated.
    ``compute_reward`` and ``compute_terminated`` take the flattened goals. Vectors (Box, MultiBinary,
    MultiDiscrete) and uint8 images, which are arrays of three axes, do not change. Keys other than the three
    goal keys are removed from the observation.

    Args:
        env: A goal environment, with spaces of Box, Discrete, MultiBinary, MultiDiscrete, Dict and Tuple.

    Raises:
        TypeError: A goal space contains a space of another type, or the elements of the observation space
            have no fixed size, such as those of Sequence and Graph.
        ValueError: The environment is not a goal environment.

    Example:
        >>> import her_envs
        >>> env = gym.make("her_envs/BitFlipping-v0", n_bits=3, observation="integer")
        >>> FlattenGoalObservation(env).observation_space["desired_goal"]  # was Discrete(8)
        Box(0, 1, (8,), int64)
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._spaces = {key: goal_spaces(env)[0][key] for key in OBSERVATION_KEYS}
        self._flat_keys = [key for key, space in self._spaces.items() if not _is_vector_or_image(space)]
        flat = {key: spaces.flatten_space(self._spaces[key]) for key in self._flat_keys}
        for key, space in flat.items():
            if not isinstance(space, spaces.Box):
                raise TypeError(f"the space of {key!r} must have a fixed size, got {self._spaces[key]}")
        self.observation_space = spaces.Dict({**self._spaces, **flat})
        if env.has_wrapper_attr("compute_terminated"):
            self.compute_terminated = partial(self._call, "compute_terminated")

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the rewards, (...), that the environment computes for flattened goals, (..., G)."""
        return self._call("compute_reward", achieved_goal, desired_goal, info)

    def _call(self, name: str, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        goals = {"achieved_goal": achieved_goal, "desired_goal": desired_goal}
        for key in goals.keys() & set(self._flat_keys):
            goals[key] = _unflatten(self._spaces[key], np.asarray(goals[key]))
        return self.env.get_wrapper_attr(name)(*goals.values(), info)

    def _repair(self, observation: Any, info: Info) -> tuple[Any, Info]:
        flat = {key: spaces.flatten(self._spaces[key], observation[key]) for key in self._flat_keys}
        return {key: observation[key] for key in OBSERVATION_KEYS} | flat, info


def _is_vector_or_image(space: spaces.Space[Any]) -> bool:
    if not isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        return False
    return len(space.shape) == 1 or (len(space.shape) == 3 and space.dtype == np.uint8)


def _unflatten(space: spaces.Space[Any], flat: np.ndarray) -> Any:
    """Invert `gymnasium.spaces.flatten` for batches, (..., G); return a tree with the same leading axes."""
    if isinstance(space, spaces.Discrete):
        return (flat.argmax(axis=-1) + space.start).astype(space.dtype)
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))
        ends = np.cumsum([spaces.flatdim(part) for part in parts.values()])[:-1]
        trees = [
            _unflatten(part, each)
            for part, each in zip(parts.values(), np.split(flat, ends, axis=-1), strict=True)
        ]
        return dict(zip(parts, trees, strict=True)) if isinstance(space, spaces.Dict) else tuple(trees)
    if isinstance(space, spaces.MultiDiscrete):
        groups = np.split(flat, np.cumsum(space.nvec.reshape(-1))[:-1], axis=-1)
        flat = np.stack([group.argmax(axis=-1) for group in groups], axis=-1) + space.start.reshape(-1)
    return flat.reshape(flat.shape[:-1] + (space.shape or ())).astype(space.dtype)
