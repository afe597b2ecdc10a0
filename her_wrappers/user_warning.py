"""Warnings that point at the user's line, however deep below it they arise."""

from __future__ import annotations

import inspect
import warnings

BELOW_THE_USER = {"her_wrappers", "gymnasium", "stable_baselines3", "sb3_contrib"}
"""Packages whose lines say nothing of what to change."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside of this package and of those in `BELOW_THE_USER`."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in BELOW_THE_USER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
