"""Three environments of panda-gym, wrapped so that all their random numbers depend on the seed."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


class SeededResets(gym.Wrapper[Any, Any, Any, Any]):
    """Passes a seed from the environment's own random generator to each reset without a seed.

    Without this wrapper, panda-gym 3.0.7 takes a random seed from the operating system in such resets, so
    runs could not be repeated.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Reset the environment; if ``seed`` is None, draw a seed from the environment's random generator."""
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        return self.env.reset(seed=seed, options=options)


def _make(name: str, options: dict[str, Any]) -> gym.Env[Any, Any]:
    return SeededResets(gym.make(f"panda_gym:{name}", **options))


def make_panda_push(**options: Any) -> gym.Env[Any, Any]:
    """Return ``PandaPush-v3`` with `SeededResets`; ``options`` are those of the environment."""
    return _make("PandaPush-v3", options)


def make_panda_pick_and_place(**options: Any) -> gym.Env[Any, Any]:
    """Return ``PandaPickAndPlace-v3`` with `SeededResets`; ``options`` are those of the environment."""
    return _make("PandaPickAndPlace-v3", options)


def make_panda_stack(**options: Any) -> gym.Env[Any, Any]:
    """Return ``PandaStack-v3`` with `SeededResets`; ``options`` are those of the environment."""
    return _make("PandaStack-v3", options)
