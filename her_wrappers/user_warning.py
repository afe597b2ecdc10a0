"""Warnings that name the user's line of code instead of a line of this package."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

BELOW_THE_USER = {"her_wrappers", "gymnasium", "stable_baselines3", "sb3_contrib"}
"""Packages whose lines are not reported as the place of a warning."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Emit a warning whose place is the innermost line outside the packages in `BELOW_THE_USER`.

    Args:
        message: Text of the warning.
        category: Class of the warning.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in BELOW_THE_USER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def renamed_argument(old: str, new: str) -> Callable[[F], F]:
    """Return a decorator for functions whose keyword argument ``old`` is now called ``new``.

    The old name still works, with a DeprecationWarning; passing both names raises TypeError.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if old in options:
                if new in options:
                    raise TypeError(f"{old} is the former name of {new}, got both; pass {new} only")
                warn_user(f"the argument {old} is now called {new}; pass {new}=", DeprecationWarning)
                options[new] = options.pop(old)
            return function(*args, **options)

        return call  # type: ignore[return-value] # has the signature of `function`

    return decorate
