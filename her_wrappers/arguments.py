"""Checks of arguments that several constructors and functions share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


def require_count(name: str, value: object, *, at_least: int) -> int:
    """Return an argument that must be an integer as an int.

    Args:
        name: Name of the argument, for the message.
        value: Value of the argument; bools are not accepted.
        at_least: Smallest valid value.

    Raises:
        ValueError: ``value`` is not an integer of at least ``at_least``.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        raise ValueError(f"{name} must be an integer >= {at_least}, got {value!r}")
    return int(value)


def require_flag(name: str, value: object) -> bool:
    """Return an argument that must be a bool as a bool.

    Args:
        name: Name of the argument, for the message.
        value: Value of the argument.

    Raises:
        TypeError: ``value`` is not a bool.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def require_number(name: str, value: object, interval: str) -> float:
    """Return an argument that must be a finite number in an interval as a float.

    Args:
        name: Name of the argument, for the message.
        value: Value of the argument; bools are not accepted.
        interval: The interval, such as ``"(0, 1]"`` or ``"[0, inf)"``; parentheses exclude the bound.

    Raises:
        ValueError: ``value`` is not a finite number in the interval.
    """
    low, high = map(float, interval[1:-1].split(","))
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        included = (interval[0] == "[" and value == low) or (interval[-1] == "]" and value == high)
        if math.isfinite(value) and (low < value < high or included):
            return float(value)
    raise ValueError(f"{name} must lie in {interval}, got {value!r}")


def require_gamma(gamma: object) -> float:
    """Return a discount factor as a float.

    Raises:
        ValueError: ``gamma`` is not a number in [0, 1].
    """
    return require_number("gamma", gamma, "[0, 1]")


def require_keys(name: str, keys: object) -> tuple[str, ...]:
    """Return ``keys`` as a tuple of strings.

    Args:
        name: Name of the argument, for the message.
        keys: Iterable of strings.

    Raises:
        TypeError: ``keys`` is a single string or not iterable, or an element of ``keys`` is not a string.
    """
    if isinstance(keys, str):
        raise TypeError(f"{name} must be a list of strings, got the string {keys!r}; write [{keys!r}]")
    found = tuple(keys) if isinstance(keys, Iterable) else (keys,)
    if not all(isinstance(key, str) for key in found):
        raise TypeError(f"{name} must be a list of strings, got {keys!r}")
    return found


def require_function(name: str, value: object, takes: str = "(achieved_goal, desired_goal, info)") -> None:
    """Raise TypeError unless ``value`` is callable.

    Args:
        name: Name of the argument, for the message.
        value: Value of the argument.
        takes: Parameters that the function should have, for the message.

    Raises:
        TypeError: ``value`` is not callable.
    """
    if not callable(value):
        raise TypeError(f"{name} must be a function of {takes}, got {value!r}")


def require_torch(feature: str, *, otherwise: str) -> None:
    """Raise ImportError unless torch is installed.

    Args:
        feature: Feature that needs torch, for the message.
        otherwise: Advice for users without torch, for the message.

    Raises:
        ImportError: torch is not installed.
    """
    try:
        import torch  # noqa: F401, PLC0415 - an optional dependency
    except ImportError as error:
        raise ImportError(
            f'{feature} needs torch; run: pip install "her-toolkit[torch]", or {otherwise}'
        ) from error


def removed_arguments(owner: str, replacements: Mapping[str, str]) -> Callable[[F], F]:
    """Return a decorator for functions whose callers may pass keyword arguments of former versions.

    Such an argument raises TypeError.

    Args:
        owner: Name of the function or class, for the message.
        replacements: Instructions that end the message, by the name of the argument.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            for name in options.keys() & replacements.keys():
                raise TypeError(f"{owner} has no argument {name}; {replacements[name]}")
            return function(*args, **options)

        return call  # type: ignore[return-value] # has the signature of `function`

    return decorate
