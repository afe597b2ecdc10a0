"""Functions that find out whether and when an environment resets itself after an episode."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode


def declared_mode(env: Any) -> AutoresetMode | None:
    """Return the autoreset mode that a vector environment declares, or None if it declares no valid mode.

    The mode is ``env.metadata["autoreset_mode"]``, with one exception: if no wrapper has set its own
    metadata, the attribute ``autoreset_mode`` of Gymnasium's vector environments is used, if it is valid.
    The reason is that before Gymnasium 1.4, all vector environments of a class share one metadata dict, so
    the newest environment overwrites the mode of all others.
    """
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        return None
    own = getattr(env.unwrapped, "autoreset_mode", None)
    shared = env.metadata is env.unwrapped.metadata
    return own if shared and isinstance(own, AutoresetMode) else mode


def resets_itself(env: Any) -> bool:
    """Return whether an environment is wrapped in Gymnasium's `Autoreset`, which resets it in ``step``."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.Autoreset):
            return True
        env = env.env
    return False
