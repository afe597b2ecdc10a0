"""Warnings that name the user's line of code instead of a line of this package."""

from __future__ import annotations

import inspect
import warnings

BELOW_THE_USER = {"her_wrappers", "gymnasium", "stable_baselines3", "sb3_contrib"}
"""Packages whose lines are not reported as the place of a warning."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Emit a warning that points to the user's code: the nearest caller outside of `BELOW_THE_USER`."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in BELOW_THE_USER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
