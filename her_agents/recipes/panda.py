"""Three environments of panda-gym, wrapped so that all their random numbers depend on the seed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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


@contextmanager
def _without_output() -> Iterator[None]:
    """Discard the text that the simulator prints when it starts; this text bypasses ``sys.stdout``."""
    sys.stdout.flush()
    original = os.dup(1)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(original, 1)
        os.close(original)


def _make(name: str, options: dict[str, Any]) -> gym.Env[Any, Any]:
    with _without_output():
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
