"""GoalInterface: the spaces and goal functions of an environment.

Neither attribute access nor ``env.unwrapped`` finds ``compute_reward`` reliably: Gymnasium's wrappers do not
forward attributes since version 1.0, ``env.unwrapped`` skips wrappers that override the function, and vector
wrappers forward no attributes.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from her_wrappers.arguments import require_function
from her_wrappers.spaces import leaf_spaces
from her_wrappers.trees import Path, leaf_arrays, map_tree
from her_wrappers.user_warning import warn_user

GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")

AnyEnv: TypeAlias = gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]

GoalFunction: TypeAlias = Callable[[Any, Any, Any], Any]
"""Function ``(achieved_goal, desired_goal, info)`` that returns (B,) rewards or bools for a batch of goals.

Goal functions are called by position, since gymnasium-robotics names the second parameter ``goal``.
"""


@dataclass(frozen=True)
class GoalInterface:
    """The spaces and goal functions of a single or vectorised goal environment.

    Attributes:
        observation_space: Dict space of a single environment with the keys ``observation``,
            ``achieved_goal`` and ``desired_goal``.
        action_space: Action space of a single environment.
        compute_reward: Function that returns the rewards of a batch of goals, of shape (B,).
        compute_terminated: Function that returns the terminations of a batch of goals as bools of shape (B,),
            or None if the environment has no such function.
    """

    observation_space: spaces.Dict
    action_space: spaces.Space[Any]
    compute_reward: GoalFunction
    compute_terminated: GoalFunction | None = None

    @classmethod
    def of(
        cls,
        env: AnyEnv,
        *,
        compute_reward: GoalFunction | None = None,
        compute_terminated: GoalFunction | None = None,
    ) -> GoalInterface:
        """Return the goal interface of an environment.

        Args:
            env: A goal environment, with any wrappers, or a vector environment of goal environments.
            compute_reward: Function to use instead of the environment's ``compute_reward``.
            compute_terminated: Function to use instead of the environment's ``compute_terminated``.

        Returns:
            The goal interface. Functions of a vector environment are those of its wrappers or its own, else
            those of its first environment, or of a local copy if its environments are in other processes.

        Raises:
            TypeError: ``env`` is not an environment, or a function is not callable with three arguments.
            ValueError: The observation space is not a Dict of the three goal keys with goals of the same
                shape and dtype, the environment has no ``compute_reward``, or ``compute_terminated`` returns
                a wrong shape.

        Example:
            >>> import gymnasium as gym, her_envs
            >>> interface = GoalInterface.of(gym.make("her_envs/PointReach-v0"))
            >>> interface.compute_reward(np.zeros((2, 2)), np.array([[0, 0], [1, 1]]), [{}, {}])
            array([ 0., -1.], dtype=float32)
        """
        observation_space, action_space = goal_spaces(env)
        if compute_reward is None:
            compute_reward = find_function(env, "compute_reward")
        if compute_terminated is None:
            compute_terminated = find_function(env, "compute_terminated")
        if compute_reward is None:
            raise ValueError(
                f"{_name(env)} has no compute_reward(achieved_goal, desired_goal, info); "
                "define it on the environment or pass compute_reward="
            )
        require_function("compute_reward", compute_reward)
        terminated = batched_terminated(compute_terminated, observation_space["achieved_goal"])
        return cls(observation_space, action_space, compute_reward, terminated)


def goal_spaces(env: AnyEnv) -> tuple[spaces.Dict, spaces.Space[Any]]:
    """Return the observation space and action space of a single environment.

    Args:
        env: A goal environment, or a vector environment of goal environments.

    Raises:
        TypeError: ``env`` is not an environment.
        ValueError: The observation space is not the space of a goal environment.
    """
    if isinstance(env, gym.vector.VectorEnv):
        observation_space, action_space = env.single_observation_space, env.single_action_space
    elif isinstance(env, gym.Env):
        observation_space, action_space = env.observation_space, env.action_space
    else:
        raise TypeError(
            f"expected a gymnasium Env or VectorEnv, got {type(env).__name__}; "
            "pass gymnasium.make(id) for an id"
        )
    return require_goal_space(observation_space), action_space


def require_goal_space(space: spaces.Space[Any]) -> spaces.Dict:
    """Return ``space`` if it is the observation space of a goal environment.

    Args:
        space: Observation space of a single environment.

    Raises:
        ValueError: The space is not a Dict, a goal key is missing, or the goals differ in shape or dtype.
    """
    if not isinstance(space, spaces.Dict):
        raise ValueError(  # noqa: TRY004 - the value of the argument is wrong, not its type
            f"observation space must be a Dict with the keys {', '.join(GOAL_KEYS)}, got {space}; "
            "return dicts with these keys from reset() and step()"
        )
    missing = [key for key in GOAL_KEYS if key not in space.keys()]  # noqa: SIM118 - Dict has no `in`
    if missing:
        raise ValueError(
            f"observation space must have the key {missing[0]!r}, got {', '.join(map(repr, space))}; "
            "add the key to the space and to the observations"
        )
    achieved, desired = space["achieved_goal"], space["desired_goal"]
    if _shapes(achieved) != _shapes(desired):
        raise ValueError(
            "achieved_goal and desired_goal must have the same shape and dtype, "
            f"got {achieved} and {desired}; use the same space for both"
        )
    return space


def batched_terminated(function: GoalFunction | None, goal_space: spaces.Space[Any]) -> GoalFunction | None:
    """Return a version of ``compute_terminated`` that returns one bool for each row of a batch.

    The function is called with batches of 2 and 3 sampled goals. Some functions accept single goals only:
    those of gymnasium-robotics return a single bool for any batch, and functions that contain ``if`` raise.

    Args:
        function: ``compute_terminated`` of an environment or of the user, or None.
        goal_space: Space of one goal.

    Returns:
        ``function`` if it accepts batches; a `LoopedGoalFunction` if it accepts single goals only; a
        `LazilyVectorizedGoalFunction` if it raises without the infos of real steps; None if ``function`` is
        None or raises NotImplementedError.

    Raises:
        TypeError: ``function`` is not callable with three arguments.
        ValueError: ``function`` returns a shape other than () and (N,) for N goals.
    """
    if function is None or isinstance(function, LoopedGoalFunction | LazilyVectorizedGoalFunction):
        return function
    require_function("compute_terminated", function)
    for count in (2, 3):
        try:
            shape = _probe(function, goal_space, count)
        except NotImplementedError:
            return None
        except Exception as error:  # a function of single goals can raise anything on a batch
            if not _takes_three_arguments(function):
                raise TypeError(
                    f"compute_terminated must be a function of (achieved_goal, desired_goal, info): {error}"
                ) from error
            return _without_batches(function, goal_space)
        if shape == ():
            return LoopedGoalFunction(function)
        if shape != (count,):
            raise ValueError(
                f"compute_terminated must return shape ({count},) for {count} goals, got {shape}; "
                "reduce over the goal's own axes only"
            )
    return function


def _probe(function: GoalFunction, goal_space: spaces.Space[Any], count: int | None) -> tuple[int, ...]:
    """Return the shape of the result for ``count`` sampled goals, or for one goal without a batch axis."""
    space = copy.deepcopy(goal_space) if count is None else batch_space(goal_space, count)
    space.seed(count or 1)
    infos: Any = {} if count is None else [{} for _ in range(count)]
    return np.shape(function(space.sample(), space.sample(), infos))


def _takes_three_arguments(function: GoalFunction) -> bool:
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:  # some builtin functions have no signature
        return True
    return True


def _without_batches(function: GoalFunction, goal_space: spaces.Space[Any]) -> GoalFunction:
    """Return a wrapper of a function that raised on batches of sampled goals with empty infos."""
    with contextlib.suppress(Exception):  # it may need the infos of real steps
        if _probe(function, goal_space, None) == () and _raises_on_batches(function, goal_space):
            return LoopedGoalFunction(function)
    return LazilyVectorizedGoalFunction(function)


def _raises_on_batches(function: GoalFunction, goal_space: spaces.Space[Any]) -> bool:
    """Whether the function raises again on a batch, so that the first error was not temporary."""
    try:
        return _probe(function, goal_space, 2) == ()
    except Exception:
        return True


class LoopedGoalFunction:
    """A goal function for batches that calls a function of single goals once for each row.

    Args:
        function: Function ``(achieved_goal, desired_goal, info) -> bool`` of one goal.
    """

    def __init__(self, function: GoalFunction) -> None:
        self._function = function
        self._warned = False

    def __call__(self, achieved_goal: Any, desired_goal: Any, info: Any) -> np.ndarray:
        """Return bools of shape (B,), and warn at the first batch that the calls are slow.

        Args:
            achieved_goal: Achieved goals, with a leading axis of size B.
            desired_goal: Desired goals, with a leading axis of size B.
            info: List of B dicts, or dict of arrays of length B.
        """
        infos = _info_rows(info, _count(achieved_goal))
        if not self._warned and len(infos) > 1:
            self._warned = True
            warn_user(
                "compute_terminated accepts single goals only, so it is called once for each row, "
                f"{len(infos)} times for this batch; return one bool per row to make it fast"
            )
        rows = ((_row(achieved_goal, i), _row(desired_goal, i), row) for i, row in enumerate(infos))
        return np.array([bool(self._function(*row)) for row in rows], dtype=bool)


class LazilyVectorizedGoalFunction:
    """A goal function whose first call with real infos decides whether the function accepts batches.

    A function that raises on the batch and not on its first row is called once for each row from then on. An
    error that a second call does not repeat, such as a MemoryError, is raised, and the next call decides.

    Args:
        function: Function ``(achieved_goal, desired_goal, info)`` that needs the infos of real steps, and
            returns bools of shape (B,) for a batch, or a bool for one goal.
    """

    def __init__(self, function: GoalFunction) -> None:
        self._function = function
        self._batched: GoalFunction | None = None

    def __call__(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return bools of shape (B,); the arguments are those of `LoopedGoalFunction`."""
        if self._batched is not None:
            return self._batched(achieved_goal, desired_goal, info)
        try:
            values = self._function(achieved_goal, desired_goal, info)
        except Exception:  # a function of single goals can raise anything on a batch
            if not self._takes_single_goals_only(achieved_goal, desired_goal, info):
                raise
            values = None
        if np.shape(values) == ():
            self._batched = LoopedGoalFunction(self._function)
            return self._batched(achieved_goal, desired_goal, info)
        self._batched = self._function
        return values

    def _takes_single_goals_only(self, achieved_goal: Any, desired_goal: Any, info: Any) -> bool:
        """Whether the function accepts the first row alone, and raises on the batch again."""
        infos = _info_rows(info, _count(achieved_goal))
        try:
            value = self._function(_row(achieved_goal, 0), _row(desired_goal, 0), infos[0])
        except Exception:
            return False
        if np.shape(value) != ():
            return False
        try:
            self._function(achieved_goal, desired_goal, info)
        except Exception:
            return True
        return False


def _info_rows(info: Any, count: int) -> list[Any]:
    """Return a list with one info for each row, also if ``info`` is a dict of columns."""
    if not isinstance(info, Mapping):
        return list(info)
    return [{key: column[i] for key, column in info.items()} for i in range(count)]


def _count(goals: Any) -> int:
    """Return the number of rows."""
    return len(leaf_arrays(goals)[0])


def _shapes(space: spaces.Space[Any]) -> dict[Path, tuple[Any, Any]]:
    return {path: (leaf.shape, leaf.dtype) for path, leaf in leaf_spaces(space).items()}


def _row(goals: Any, i: int) -> Any:
    return map_tree(lambda rows: rows[i], goals)


def find_function(env: AnyEnv, name: str) -> Any:
    """Return the function of the outermost layer that has an attribute ``name``, or None.

    Args:
        env: A single or vectorised environment, with any wrappers.
        name: Name of the function, such as ``"compute_reward"``.
    """
    if isinstance(env, gym.Env):
        return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
    layer: Any = env
    while isinstance(layer, gym.vector.VectorWrapper) and not hasattr(layer, name):
        layer = layer.env
    return getattr(layer, name) if hasattr(layer, name) else _find_in_sub_environments(layer, name)


def _find_in_sub_environments(vector_env: Any, name: str) -> Any:
    if isinstance(vector_env, gym.vector.SyncVectorEnv):
        return find_function(vector_env.envs[0], name)
    local = _local_copy(vector_env)
    return None if local is None else find_function(local, name)


def _local_copy(vector_env: Any) -> gym.Env[Any, Any] | None:
    """Return an environment like those in the worker processes of ``vector_env``, or None."""
    # Calls in the worker processes are slow, and a function that raises there ends the processes.
    makers = getattr(vector_env, "env_fns", None)
    try:
        if makers:
            return makers[0]()  # type: ignore[no-any-return] # env_fns has no annotation
        if vector_env.spec is not None:
            return gym.make(vector_env.spec.id, disable_env_checker=True, **vector_env.spec.kwargs)
    except Exception:  # the function is missing then
        return None
    return None


def _name(env: AnyEnv) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
