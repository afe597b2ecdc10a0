"""limit_episodes: truncate episodes at a time limit or, without one, raise an error after 10,000 steps."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from her_wrappers.goals.interface import env_spec

MAX_EPISODE_STEPS = 10_000  # longer episodes are errors, unless the environment declares a longer limit


class EndlessEpisodeError(RuntimeError):
    """An episode did not end within 10,000 steps, or within the declared time limit if that is longer."""


def declared_time_limit(env: gym.Env[Any, Any]) -> int | None:
    """Return ``max_episode_steps`` of the environment's spec or, without it, ``max_steps``, or None."""
    spec = env_spec(env)
    limit = None if spec is None else spec.max_episode_steps
    if limit is None and env.has_wrapper_attr("max_steps"):
        limit = env.get_wrapper_attr("max_steps")
    return limit if isinstance(limit, int) else None


def limit_episodes(env: gym.Env[Any, Any], max_episode_steps: int | None = None) -> gym.Env[Any, Any]:
    """Wrap an environment to truncate long episodes or, without a limit, to raise EndlessEpisodeError."""
    if max_episode_steps is not None:
        return gym.wrappers.TimeLimit(env, max_episode_steps)
    return _RequireEnd(env, max(MAX_EPISODE_STEPS, declared_time_limit(env) or 0))


class _RequireEnd(gym.Wrapper[Any, Any, Any, Any]):
    """Raises EndlessEpisodeError at step ``limit`` of an episode, unless the episode ends there."""

    def __init__(self, env: gym.Env[Any, Any], limit: int) -> None:
        super().__init__(env)
        self._limit = limit
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        self._steps = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        result: tuple[Any, Any, Any, Any, dict[str, Any]] = self.env.step(action)
        self._steps += 1
        if self._steps >= self._limit and not (result[2] or result[3]):
            raise EndlessEpisodeError(
                f"an episode of {self.env.unwrapped} did not end after {self._steps:,} steps; "
                "pass --max-episode-steps N (max_episode_steps=N in a config), or let step() of the "
                "environment return truncated=True after a number of steps"
            )
        return result
