"""The autoreset mode of an environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode


def declared_mode(env: Any) -> AutoresetMode | None:
    """Return the autoreset mode that a vector environment declares; None if it declares no valid mode.

    Before Gymnasium 1.4, the vector environments of one class share a metadata dict, so a vector environment
    overwrites the mode of vector environments created before it. Gymnasium's own vector environments also
    have the attribute ``autoreset_mode``. This attribute is returned instead of the mode in the metadata,
    unless a wrapper has metadata of its own.
    """
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        return None
    own = getattr(env.unwrapped, "autoreset_mode", None)
    shared = env.metadata is env.unwrapped.metadata
    return own if shared and isinstance(own, AutoresetMode) else mode


def resets_itself(env: Any) -> bool:
    """Whether a single environment has Gymnasium's wrapper `Autoreset`, which resets it in a call of step."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.Autoreset):
            return True
        env = env.env
    return False
