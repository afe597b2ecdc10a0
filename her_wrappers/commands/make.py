"""Environments and policies from what a user types."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import typer


def parse_options(options: list[str]) -> dict[str, Any]:
    """Read ``name=value`` pairs; values are JSON, and what is no JSON is a word.

    Raises:
        typer.BadParameter: An option has no ``=``.

    Example:
        >>> parse_options(["n_bits=5", "continuous=true", "goal=ones"])
        {'n_bits': 5, 'continuous': True, 'goal': 'ones'}
    """
    parsed = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"expected name=value, such as n_bits=5, got {option!r}")
        try:
            parsed[name] = json.loads(value)
        except json.JSONDecodeError:
            parsed[name] = value
    return parsed


@contextlib.contextmanager
def present_folder() -> Iterator[None]:
    """Let modules be imported from the present folder, as ``python -m`` does and ``her`` would not."""
    sys.path.insert(0, "")
    try:
        yield
    finally:
        sys.path.remove("")


def make_env(env_id: str, /, **options: Any) -> gym.Env[Any, Any]:
    """Make an environment.

    Raises:
        typer.BadParameter: There is no such id, or it has no such options.
    """
    try:
        with present_folder():
            return gym.make(env_id, **options)
    except (gym.error.Error, ImportError, TypeError, ValueError) as error:
        reason = str(error).rstrip(".")
        raise typer.BadParameter(
            f"cannot make {env_id}: {reason}; `her envs` lists the bundled ones and their options"
        ) from error


def load_policy(name: str) -> Callable[[Any], Any]:
    """Find a function by ``module:function``, in the present folder too.

    Raises:
        typer.BadParameter: There is no such function.
    """
    module, colon, function = name.partition(":")
    if not colon:
        raise typer.BadParameter(f"expected 'random' or module:function, got {name!r}")
    try:
        with present_folder():
            policy = getattr(importlib.import_module(module), function)
    except Exception as error:  # whatever the module raises while it is imported
        raise typer.BadParameter(f"cannot load the policy {name}: {type(error).__name__}: {error}") from error
    if not callable(policy):
        raise typer.BadParameter(f"the policy must be a function of an observation, got {policy!r}")
    return policy  # type: ignore[no-any-return] # its signature shows when it is called
