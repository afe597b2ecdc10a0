"""GoalInterface: the spaces and goal functions of an environment."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import gymnasium as gym
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from her_wrappers.data.spaces import leaf_spaces
from her_wrappers.data.trees import Path
from her_wrappers.goals.functions import GoalFunction, batched_terminated
from her_wrappers.support.arguments import require_function

OBSERVATION_KEYS = ("observation", "achieved_goal", "desired_goal")

AnyEnv: TypeAlias = gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]


@dataclass(frozen=True)
class GoalInterface:
    """The spaces and goal functions of a single or vectorized goal environment.

    Attributes:
        observation_space: Dict space of a single environment with the keys ``observation``,
            ``achieved_goal`` and ``desired_goal``.
        action_space: Action space of a single environment.
        compute_reward: Function ``(achieved_goal, desired_goal, info)`` that returns the rewards of a batch
            of B goals, of shape (B,).
        compute_terminated: Function ``(achieved_goal, desired_goal, info)`` that returns the terminations of
            a batch of B goals as bools of shape (B,), or None if the environment has no such function.
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
            The goal interface. A function that a vector environment and its wrappers do not have is taken
            from the first environment of a SyncVectorEnv, or from one more environment, made in this process.

        Raises:
            TypeError: ``env`` is not an environment, a goal function is not callable, ``compute_terminated``
                does not take three arguments, or a goal space, such as Text or Sequence, has no fixed shape.
            ValueError: The observation space is not a Dict with the three goal keys and equal goal spaces,
                ``compute_reward`` is missing, a wrapper changes the size of the goals but does not override
                it, ``compute_terminated`` returns a wrong shape, ``get_wrapper_attr`` of a wrapper raises,
                or a vector environment contains the same environment object twice.

        Example:
            >>> import gymnasium as gym, her_envs, numpy as np
            >>> interface = GoalInterface.of(gym.make("her_envs/PointReach-v0"))
            >>> interface.compute_reward(np.zeros((2, 2)), np.array([[0, 0], [1, 1]]), [{}, {}])
            array([ 0., -1.], dtype=float32)
        """
        observation_space, action_space = goal_spaces(env)
        if compute_reward is None:
            compute_reward = find_function(env, "compute_reward")
            require_own_goals(observation_space, env, compute_reward)
        if compute_terminated is None:
            compute_terminated = find_function(env, "compute_terminated")
        if compute_reward is None:
            raise ValueError(
                f"{env_name(env)} has no compute_reward(achieved_goal, desired_goal, info); "
                "define this method in the environment, or pass a function as compute_reward="
            )
        require_function("compute_reward", compute_reward)
        terminated = batched_terminated(compute_terminated, observation_space["achieved_goal"])
        return cls(observation_space, action_space, compute_reward, terminated)


def goal_spaces(env: AnyEnv) -> tuple[spaces.Dict, spaces.Space[Any]]:
    """Return the spaces of a goal environment, or of one in a vector environment."""
    observation_space, action_space = spaces_of(env)
    if isinstance(env, gym.vector.VectorEnv):
        require_distinct(env)
    return require_goal_space(observation_space), action_space


def spaces_of(env: AnyEnv) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """Return the two spaces of an environment, or of one in a vector environment, or raise TypeError."""
    if isinstance(env, gym.vector.VectorEnv):
        return env.single_observation_space, env.single_action_space
    if isinstance(env, gym.Env):
        return env.observation_space, env.action_space
    raise TypeError(
        "env must be a gymnasium.Env or gymnasium.vector.VectorEnv, got "
        f"{getattr(env, '__name__', type(env).__name__)}; {remedy_for_env(env)}"
    )


def remedy_for_env(value: Any) -> str:
    """Return advice for a user who passed ``value``, which is not an environment."""
    if callable(value):  # a class or a function
        return f"call it: pass {getattr(value, '__name__', 'it')}()"
    if hasattr(value, "single_observation_space"):
        return "for a GoalSimulator, use DeviceReplayBuffer, or pass its as_vector_env()"
    return "instead of an id, pass gymnasium.make(id)"


def require_distinct(vector_env: Any) -> None:
    """Raise ValueError if the list ``envs`` of a vector environment has the same innermost object twice."""
    envs = getattr(vector_env.unwrapped, "envs", None)
    slots: dict[int, int] = {}  # first slot of each object
    for i, env in enumerate(envs if isinstance(envs, list | tuple) else ()):
        if isinstance(env, gym.Env) and (first := slots.setdefault(id(env.unwrapped), i)) != i:
            raise ValueError(
                f"the environments {first} and {i} of the vector environment are the same "
                f"{type(env.unwrapped).__name__} object, so that a step of one would change the other too. "
                "Let each function make a new environment, as in SyncVectorEnv([lambda: gym.make(id)] * 4). "
                "In a loop over existing environments, write lambda env=env: env"
            )


def require_goal_space(space: spaces.Space[Any]) -> spaces.Dict:
    """Return ``space``, or raise an error unless it has the three keys and equal goal spaces."""
    if not isinstance(space, spaces.Dict):
        raise ValueError(  # noqa: TRY004 - the value of the argument is wrong, not its type
            f"observation space must be a Dict with the keys {', '.join(map(repr, OBSERVATION_KEYS))}, "
            f"got {space}; define observation_space as such a Dict, and return such dicts from reset() "
            "and step()"
        )
    missing = [key for key in OBSERVATION_KEYS if key not in space.keys()]  # noqa: SIM118 - Dict has no `in`
    if missing:
        raise ValueError(
            f"observation space must have the key {missing[0]!r}, got the keys {list(space)}; "
            "add the key to the space and to the observations"
        )
    achieved, desired = space["achieved_goal"], space["desired_goal"]
    if _shapes(achieved) != _shapes(desired):
        raise ValueError(
            "achieved_goal and desired_goal must have the same shape and dtype, "
            f"got {achieved} and {desired}; use the same space for both"
        )
    return space


def require_own_goals(space: spaces.Dict, env: Any, function: Any = None) -> None:
    """Raise ValueError if a wrapper changes the size of goals but does not override ``compute_reward``."""
    own = own_goal_space(function, env)
    if own is None:
        return
    got, expected = ([shape for shape, _ in _shapes(each).values()] for each in (space["achieved_goal"], own))
    if sum(map(math.prod, got)) != sum(map(math.prod, expected)):
        raise ValueError(
            f"a wrapper changes the shape of goals to {', '.join(map(str, got))}, but compute_reward takes "
            f"{', '.join(map(str, expected))}. Use a wrapper that leaves goals as they are (not "
            "FrameStackObservation or VecFrameStack, which stack the goals too), or give the wrapper its own "
            "compute_reward, for goals of the changed shape"
        )


def own_goal_space(compute_reward: Any, env: Any = None) -> spaces.Space[Any] | None:
    """Return the achieved-goal space of the environment or wrapper with ``compute_reward``, or None."""
    owner = getattr(compute_reward, "__self__", None)
    if not isinstance(owner, gym.Env | gym.vector.VectorEnv):
        found = () if env is None else layers(env)
        has_function = (each for each in found if inspect.getattr_static(each, "compute_reward", None))
        owner = next(has_function, env)
    own = getattr(owner, "single_observation_space", getattr(owner, "observation_space", None))
    return own.spaces.get("achieved_goal") if isinstance(own, spaces.Dict) else None


def layers(env: Any) -> Iterator[Any]:
    """Yield ``env`` and the layers in it, outermost first; in a SyncVectorEnv, only the first environment."""
    yield env
    if isinstance(env, gym.vector.SyncVectorEnv):
        yield from layers(env.envs[0])
    elif isinstance(env, gym.Wrapper | gym.vector.VectorWrapper):
        yield from layers(env.env)


def _shapes(space: spaces.Space[Any]) -> dict[Path, tuple[Any, Any]]:
    return {path: (leaf.shape, leaf.dtype) for path, leaf in leaf_spaces(space).items()}


def find_function(env: AnyEnv, name: str) -> Any:
    """Return the attribute ``name`` of the outermost wrapper or environment that has it, or None."""
    # Gymnasium's wrappers do not forward attributes, and ``env.unwrapped`` would skip wrappers.
    if isinstance(env, gym.Env):
        try:
            return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
        except Exception as error:
            raise ValueError(
                f"get_wrapper_attr({name!r}) of {type(env).__name__} raises {type(error).__name__}: {error}; "
                "correct this method: for attributes that the wrapper does not have, it must return "
                "self.env.get_wrapper_attr(name)"
            ) from error
    layer: Any = env
    while isinstance(layer, gym.vector.VectorWrapper) and not hasattr(layer, name):
        layer = layer.env
    if hasattr(layer, name):
        return getattr(layer, name)
    first = layer.envs[0] if isinstance(layer, gym.vector.SyncVectorEnv) else _local_copy(layer)
    return None if first is None else find_function(first, name)


def _local_copy(vector_env: Any) -> gym.Env[Any, Any] | None:
    """Make one more environment of the kind in ``vector_env``, in this process; return None if this fails."""
    # Calls in the worker processes are slow, and a function that raises there ends the processes.
    makers = getattr(vector_env, "env_fns", None)
    spec = env_spec(vector_env)
    with contextlib.suppress(Exception):  # without a copy, the result is None
        if makers:
            return makers[0]()  # type: ignore[no-any-return] # env_fns has no annotation
        if spec is not None:
            return gym.make(spec.id, disable_env_checker=True, **spec.kwargs)
    return None


def env_spec(env: Any) -> EnvSpec | None:
    """Return ``env.spec``, or None if it is missing or not an `EnvSpec`, as in environments of EnvPool."""
    try:
        spec = env.spec
    except Exception:  # a property of a wrapper may raise
        return None
    return spec if isinstance(spec, EnvSpec) else None


def env_name(env: Any) -> str:
    """Return the id of an environment or, without a spec, the name of its class."""
    spec = env_spec(env)
    return type(env.unwrapped).__name__ if spec is None else spec.id
