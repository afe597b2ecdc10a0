"""Functions that find out whether and when an environment resets itself after an episode."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from her_wrappers.goals.interface import layers


def declared_mode(env: Any) -> AutoresetMode | None:
    """Return the autoreset mode in the metadata of a vector environment, or None if it is not valid."""
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        return None
    # Before Gymnasium 1.4, all vector environments of a class share one metadata dict, in which the newest
    # environment overwrites the mode of all others. Their attribute is their own.
    own = getattr(env.unwrapped, "autoreset_mode", None)
    shared = env.metadata is env.unwrapped.metadata
    return own if shared and isinstance(own, AutoresetMode) else mode


def resets_itself(env: Any) -> bool:
    """Return whether an environment is wrapped in Gymnasium's `Autoreset`, which resets it in ``step``."""
    return any(isinstance(layer, gym.wrappers.Autoreset) for layer in layers(env))
