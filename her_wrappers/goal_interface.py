"""GoalInterface: the goal functions and spaces of an environment, which all other parts use.

Finding ``compute_reward`` takes care: Gymnasium's wrappers do not forward attributes since 1.0,
``env.unwrapped`` skips a wrapper that overrides it, and vector wrappers forward nothing at all.
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
"""``(achieved_goal, desired_goal, info)`` of a batch -> (B,) rewards or bools. Called by position, since
gymnasium-robotics names the second parameter ``goal``."""


@dataclass(frozen=True)
class GoalInterface:
    """The goal interface of one environment, single or vectorised.

    Attributes:
        observation_space: Dict of the three goal keys, of one environment.
        action_space: Actions of one environment.
        compute_reward: Rewards of a batch of goals.
        compute_terminated: Terminations of a batch of goals, or None where the environment has no such
            function.
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
        """Read the goal interface of an environment.

        Args:
            env: A goal environment, with any wrappers around it, or a vector environment of such.
            compute_reward: Used instead of the environment's own.
            compute_terminated: Used instead of the environment's own.

        Raises:
            TypeError: ``env`` is not an environment, or a function is not callable.
            ValueError: The observation space is not a Dict of the three goal keys with goals alike, the
                environment has no ``compute_reward``, or ``compute_terminated`` returns a wrong shape.

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
    """Return the observation and action space of one environment.

    Raises:
        TypeError: ``env`` is not an environment.
        ValueError: The observation space is not that of a goal environment.
    """
    if isinstance(env, gym.vector.VectorEnv):
        observation_space, action_space = env.single_observation_space, env.single_action_space
    elif isinstance(env, gym.Env):
        observation_space, action_space = env.observation_space, env.action_space
    else:
        raise TypeError(f"expected a gymnasium Env or VectorEnv, got {type(env).__name__}")
    return require_goal_space(observation_space), action_space


def require_goal_space(space: spaces.Space[Any]) -> spaces.Dict:
    """Return ``space`` if it is that of a goal environment.

    Raises:
        ValueError: The space is not a Dict, a goal key is missing, or the goals differ in shape or dtype.
    """
    if not isinstance(space, spaces.Dict):
        raise ValueError(  # noqa: TRY004 - what is wrong is the environment, not the argument's type
            f"observation space must be a Dict with the keys {', '.join(GOAL_KEYS)}, got {space}; "
            "return such dicts from reset() and step()"
        )
    missing = [key for key in GOAL_KEYS if key not in space.keys()]  # noqa: SIM118 - Dict has no `in`
    if missing:
        raise ValueError(
            f"observation space has no key {missing[0]!r}, only {', '.join(map(repr, space))}; "
            "add it to the space and to what reset() and step() return"
        )
    achieved, desired = space["achieved_goal"], space["desired_goal"]
    if _shapes(achieved) != _shapes(desired):
        raise ValueError(
            f"achieved_goal and desired_goal must have one shape and dtype, got {achieved} and {desired}; "
            "use the same space for both"
        )
    return space


def batched_terminated(function: GoalFunction | None, goal_space: spaces.Space[Any]) -> GoalFunction | None:
    """Make ``compute_terminated`` return one bool for each row of a batch.

    The function is probed with 2 and 3 goals: gymnasium-robotics' Fetch returns one False and its PointMaze
    one wrong bool for any batch, and functions written with ``if`` raise.

    Args:
        function: ``compute_terminated`` of an environment or of the user, or None.
        goal_space: Space of one goal.

    Returns:
        The function for batches; a `LoopedGoalFunction` if it takes single goals only; a
        `LazilyVectorizedGoalFunction` if it raises without the infos of real steps; None if it is None or
        raises NotImplementedError.

    Raises:
        TypeError: ``function`` is not callable with three arguments.
        ValueError: The shape of the answer for N goals is neither () nor (N,).
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
    """Return the shape of the answer for ``count`` sampled goals, or for one goal without a batch axis."""
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
    """Wrap a function that raised on sampled goals and empty infos."""
    with contextlib.suppress(Exception):  # it may need the infos of real steps
        if _probe(function, goal_space, None) == () and _raises_on_batches(function, goal_space):
            return LoopedGoalFunction(function)
    return LazilyVectorizedGoalFunction(function)


def _raises_on_batches(function: GoalFunction, goal_space: spaces.Space[Any]) -> bool:
    """Whether the function raises again, so that the first error was not a passing one."""
    try:
        return _probe(function, goal_space, 2) == ()
    except Exception:
        return True


class LoopedGoalFunction:
    """A function of single goals, called once for each row of a batch.

    Args:
        function: ``(achieved_goal, desired_goal, info) -> bool`` of one goal.
    """

    def __init__(self, function: GoalFunction) -> None:
        self._function = function
        self._warned = False

    def __call__(self, achieved_goal: Any, desired_goal: Any, info: Any) -> np.ndarray:
        """Return (B,) bools, and warn of the cost at the first batch."""
        infos = _info_rows(info, _count(achieved_goal))
        if not self._warned and len(infos) > 1:
            self._warned = True
            warn_user(
                "compute_terminated answers for single goals only, so it is called once for each row, "
                f"{len(infos)} times for this batch; let it return one bool a row to be fast"
            )
        rows = ((_row(achieved_goal, i), _row(desired_goal, i), row) for i, row in enumerate(infos))
        return np.array([bool(self._function(*row)) for row in rows], dtype=bool)


class LazilyVectorizedGoalFunction:
    """A function that needs the infos of real steps, so that its first call shows whether it takes batches.

    An error that the next call does not repeat, such as a MemoryError, decides nothing: it is raised, and the
    next call tries again.

    Args:
        function: ``(achieved_goal, desired_goal, info)`` -> (B,) bool, or one bool for one goal.
    """

    def __init__(self, function: GoalFunction) -> None:
        self._function = function
        self._batched: GoalFunction | None = None

    def __call__(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return (B,) bools."""
        if self._batched is not None:
            return self._batched(achieved_goal, desired_goal, info)
        try:
            answers = self._function(achieved_goal, desired_goal, info)
        except Exception:  # a function of single goals can raise anything on a batch
            if not self._takes_single_goals_only(achieved_goal, desired_goal, info):
                raise
            answers = None
        if np.shape(answers) == ():
            self._batched = LoopedGoalFunction(self._function)
            return self._batched(achieved_goal, desired_goal, info)
        self._batched = self._function
        return answers

    def _takes_single_goals_only(self, achieved_goal: Any, desired_goal: Any, info: Any) -> bool:
        """Whether the function answers for the first row, and raises on the batch again."""
        infos = _info_rows(info, _count(achieved_goal))
        try:
            alone = self._function(_row(achieved_goal, 0), _row(desired_goal, 0), infos[0])
        except Exception:
            return False
        if np.shape(alone) != ():
            return False
        try:
            self._function(achieved_goal, desired_goal, info)
        except Exception:
            return True
        return False


def _info_rows(info: Any, count: int) -> list[Any]:
    """Return one info for each row, also for infos given as a dict of columns."""
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
    """Find an environment's function, or None. The outermost layer that has it wins."""
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
    """Make one environment like those behind ``vector_env``.

    ``call`` in the worker processes would cost far more, and a function that raises there ends them.
    """
    makers = getattr(vector_env, "env_fns", None)
    try:
        if makers:
            return makers[0]()  # type: ignore[no-any-return] # AsyncVectorEnv does not say what it keeps
        if vector_env.spec is not None:
            return gym.make(vector_env.spec.id, disable_env_checker=True, **vector_env.spec.kwargs)
    except Exception:  # the function is then missing
        return None
    return None


def _name(env: AnyEnv) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
