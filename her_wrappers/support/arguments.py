"""Argument checks that several constructors and functions share."""

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
    """Return ``value`` as an int; raise ValueError unless it is an integer >= ``at_least`` and not a bool."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        raise ValueError(f"{name} must be an integer >= {at_least}, got {value!r}")
    return int(value)


def require_flag(name: str, value: object) -> bool:
    """Return ``value`` as a bool; raise TypeError unless it is a bool or a NumPy bool."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def require_number(name: str, value: object, interval: str) -> float:
    """Return ``value`` as a float; raise ValueError unless it is in ``interval``, such as ``"[0, inf)"``."""
    low, high = map(float, interval[1:-1].split(","))
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        included = (interval[0] == "[" and value == low) or (interval[-1] == "]" and value == high)
        if math.isfinite(value) and (low < value < high or included):
            return float(value)
    raise ValueError(f"{name} must be a number in {interval}, got {value!r}")


def require_gamma(gamma: object) -> float:
    """Return ``gamma`` as a float; raise ValueError unless it is a number in [0, 1]."""
    return require_number("gamma", gamma, "[0, 1]")


def require_keys(name: str, keys: object) -> tuple[str, ...]:
    """Return an iterable of strings as a tuple; raise TypeError for any other value or a single string."""
    if isinstance(keys, str):
        raise TypeError(f"{name} must be a list of strings, got the string {keys!r}; write [{keys!r}]")
    found = tuple(keys) if isinstance(keys, Iterable) else (keys,)
    if not all(isinstance(key, str) for key in found):
        raise TypeError(f"{name} must be a list of strings, got {keys!r}")
    return found


def require_on_error(on_error: object) -> bool:
    """Return True for "skip" and False for "raise"; raise ValueError for any other value."""
    if on_error not in {"raise", "skip"}:
        raise ValueError(f"on_error must be 'raise' or 'skip', got {on_error!r}")
    return on_error == "skip"


def require_function(name: str, value: object, takes: str = "(achieved_goal, desired_goal, info)") -> None:
    """Raise TypeError unless ``value`` is callable; the message shows the parameter list ``takes``."""
    if not callable(value):
        raise TypeError(f"{name} must be a function of {takes}, got {value!r}")


def require_result(name: str, value: object, expected: str) -> None:
    """Raise ValueError if ``value``, the result of the user's function ``name``, is None."""
    if value is None:
        raise ValueError(f"{name} must return {expected}, got None; add a return statement")


def require_suffix(name: str, path: str | os.PathLike[str], suffixes: Sequence[str]) -> str:
    """Return the suffix of ``path`` in lower case; raise ValueError if it is not in ``suffixes``."""
    suffix = Path(path).suffix.lower()
    if suffix not in suffixes:
        raise ValueError(f"{name} must end with {' or '.join(suffixes)}, got {os.fspath(path)!r}")
    return suffix


def require_torch(feature: str, *, otherwise: str) -> None:
    """Raise ImportError if torch is missing; the message ends with ``otherwise``, advice for this case."""
    try:
        import torch  # noqa: F401, PLC0415 - an optional dependency
    except ImportError as error:
        raise ImportError(
            f'{feature} needs torch; run `pip install "her-toolkit[torch]"`, or {otherwise}'
        ) from error


def removed_arguments(owner: str, replacements: Mapping[str, str]) -> Callable[[F], F]:
    """Return a decorator: a removed keyword argument is a TypeError with the advice in ``replacements``."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            for name in options.keys() & replacements.keys():
                raise TypeError(f"{owner} has no argument {name!r}; {replacements[name]}")
            return function(*args, **options)

        return call  # type: ignore[return-value] # has the signature of `function`

    return decorate
