"""Source: which environment episodes come from, as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from her_wrappers.recording.space_json import SpaceJson, space_to_json

if TYPE_CHECKING:
    from gymnasium import spaces

    from her_wrappers.files.layout import Json
    from her_wrappers.goal_interface import AnyEnv

MAX_REPR = 1000
"""Characters kept of an argument that JSON cannot hold."""


@dataclass(frozen=True)
class Source:
    """An environment, as far as a file can tell.

    Attributes:
        observation_space: Of one environment, by `space_to_json`.
        action_space: Likewise.
        env_id: As ``gymnasium.make`` takes it; None where the environment was not made by it.
        env_class: Class of the environment without its wrappers.
        max_episode_steps: Of its spec.
        kwargs: Arguments of ``gymnasium.make``, as far as JSON holds them exactly.
        kwargs_as_text: The others, as Python prints them.
    """

    observation_space: SpaceJson
    action_space: SpaceJson
    env_id: str | None = None
    env_class: str = ""
    max_episode_steps: int | None = None
    kwargs: dict[str, Json] = field(default_factory=dict)
    kwargs_as_text: dict[str, str] = field(default_factory=dict)


def source_of(env: AnyEnv) -> Source:
    """Describe an environment, single or vectorised.

    Raises:
        TypeError: It is no environment, or has a space that JSON cannot describe.
    """
    observation_space, action_space = _spaces(env)
    given = dict(env.spec.kwargs) if env.spec is not None else {}
    kwargs = {name: value for name, value in given.items() if _is_json(value)}
    return Source(
        space_to_json(observation_space),
        space_to_json(action_space),
        env_id=env.spec.id if env.spec is not None else None,
        env_class=type(env.unwrapped).__qualname__,
        max_episode_steps=env.spec.max_episode_steps if env.spec is not None else None,
        kwargs=kwargs,
        kwargs_as_text={name: _as_text(given[name]) for name in given.keys() - kwargs.keys()},
    )


def _spaces(env: AnyEnv) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """Return the spaces of one environment.

    Raises:
        TypeError: ``env`` is no environment.
    """
    if isinstance(env, gym.vector.VectorEnv):
        return env.single_observation_space, env.single_action_space
    if isinstance(env, gym.Env):
        return env.observation_space, env.action_space
    raise TypeError(f"expected a gymnasium Env or VectorEnv, got {type(env).__name__}")


def _is_json(value: Any) -> bool:
    """Whether JSON gives back the very value; it makes lists of tuples and strings of numbers as keys."""
    try:
        back = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return False
    return repr(back) == repr(value)


def _as_text(value: Any) -> str:
    try:
        return repr(value)[:MAX_REPR]
    except Exception:  # whatever somebody's __repr__ raises
        return f"<{type(value).__name__}>"
