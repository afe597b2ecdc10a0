"""Checks of arguments that several constructors and functions share."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


def require_count(name: str, value: object, *, at_least: int) -> int:
    """Return an integer >= ``at_least`` as an int; raise ValueError for other values, also for bools."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        raise ValueError(f"{name} must be an integer >= {at_least}, got {value!r}")
    return int(value)


def require_flag(name: str, value: object) -> bool:
    """Return a bool or a NumPy bool as a bool, or raise TypeError for other values."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def require_number(name: str, value: object, interval: str) -> float:
    """Return a finite number in an interval such as ``"[0, inf)"`` as a float, or raise ValueError."""
    low, high = map(float, interval[1:-1].split(","))
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        included = (interval[0] == "[" and value == low) or (interval[-1] == "]" and value == high)
        if math.isfinite(value) and (low < value < high or included):
            return float(value)
    raise ValueError(f"{name} must lie in {interval}, got {value!r}")


def require_gamma(gamma: object) -> float:
    """Return a discount factor in [0, 1] as a float, or raise ValueError."""
    return require_number("gamma", gamma, "[0, 1]")


def require_keys(name: str, keys: object) -> tuple[str, ...]:
    """Return an iterable of strings, but not a single string, as a tuple, or raise TypeError."""
    if isinstance(keys, str):
        raise TypeError(f"{name} must be a list of strings, got the string {keys!r}; write [{keys!r}]")
    found = tuple(keys) if isinstance(keys, Iterable) else (keys,)
    if not all(isinstance(key, str) for key in found):
        raise TypeError(f"{name} must be a list of strings, got {keys!r}")
    return found


def require_function(name: str, value: object, takes: str = "(achieved_goal, desired_goal, info)") -> None:
    """Raise TypeError unless ``value`` is callable; the message shows its parameters, ``takes``."""
    if not callable(value):
        raise TypeError(f"{name} must be a function of {takes}, got {value!r}")


def require_suffix(name: str, path: str | os.PathLike[str], suffixes: Sequence[str]) -> str:
    """Return the lower-case suffix of a file to write, or raise ValueError if it is not in ``suffixes``."""
    suffix = Path(path).suffix.lower()
    if suffix not in suffixes:
        raise ValueError(f"{name} must end with {' or '.join(suffixes)}, got {os.fspath(path)!r}")
    return suffix


def require_torch(feature: str, *, otherwise: str) -> None:
    """Raise ImportError unless torch is installed; ``otherwise`` is the way to work without torch."""
    try:
        import torch  # noqa: F401, PLC0415 - an optional dependency
    except ImportError as error:
        raise ImportError(
            f'{feature} needs torch; run: pip install "her-toolkit[torch]", or {otherwise}'
        ) from error


def removed_arguments(owner: str, replacements: Mapping[str, str]) -> Callable[[F], F]:
    """Return a decorator that raises TypeError for keyword arguments of former versions of ``owner``.

    ``replacements`` names, for each removed argument, the replacement to use.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            for name in options.keys() & replacements.keys():
                raise TypeError(f"{owner} has no argument {name}; {replacements[name]}")
            return function(*args, **options)

        return call  # type: ignore[return-value] # has the signature of `function`

    return decorate
