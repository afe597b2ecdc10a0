"""Autoreset: how a vector environment says that it begins its next episodes."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AutoresetMode


def declared_mode(env: Any) -> AutoresetMode | None:
    """Return the mode in a vector environment's metadata, or None where there is no valid one.

    Before Gymnasium 1.4, vector environments share the metadata of their environments' class, so that one
    made later changes what an earlier one says. What Gymnasium's own have beside it stays right. A wrapper
    with metadata of its own is taken at its word.
    """
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        return None
    own = getattr(env.unwrapped, "autoreset_mode", None)
    shared = env.metadata is env.unwrapped.metadata
    return own if shared and isinstance(own, AutoresetMode) else mode
