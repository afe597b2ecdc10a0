"""Options of environments and policies from the command line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeAlias

import gymnasium as gym
import typer
from rich.console import Console
from rich.markup import escape

from her_wrappers import SinkError
from her_wrappers.environments import import_module

AGENTS_PACKAGES = ("torch", "matplotlib", "tensorboard")
"""Modules that the extra `agents` installs."""

OPTIONS_HELP = "Option of the environment: name=value or a JSON object; can be repeated."

EnvOptions: TypeAlias = Annotated[
    list[str] | None, typer.Option("--option", "-o", "--kwargs", metavar="NAME=VALUE", help=OPTIONS_HELP)
]
"""Parameter of a command: the options of an environment, for `parse_options`."""

Policy: TypeAlias = Callable[[Any], Any]
"""``policy(observation) -> action``"""


def parse_options(options: list[str] | None) -> dict[str, Any]:
    """Return the options of an environment.

    Args:
        options: ``name=value`` pairs and JSON objects. A value that is not JSON is a string.

    Raises:
        typer.BadParameter: An option is neither a pair nor a JSON object.

    Example:
        >>> parse_options(["n_bits=5", "goal=ones", '{"continuous": true}'])
        {'n_bits': 5, 'goal': 'ones', 'continuous': True}
    """
    parsed: dict[str, Any] = {}
    for option in options or ():
        name, equals, value = option.partition("=")
        if option.lstrip().startswith("{"):
            parsed |= _parse_object(option)
        elif name and equals:
            parsed[name] = _parse_value(value)
        else:
            raise typer.BadParameter(
                f"expected name=value, or a JSON object, got {option!r}; write, for example, n_bits=5"
            )
    return parsed


def _parse_object(text: str) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"expected a JSON object, got {text!r}: {error}") from error
    return parsed


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Print an error about an option or a file as one sentence, and exit with code 2.

    Raises:
        typer.Exit: An error occurred.
    """
    try:
        yield
    except (ImportError, OSError, SinkError, TypeError, ValueError, typer.BadParameter) as error:
        text = error.message if isinstance(error, typer.BadParameter) else str(error)
        package = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and package in AGENTS_PACKAGES:
            text = f'this command needs {package}; run: pip install "her-toolkit[agents]"'
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {escape(text)}")
        raise typer.Exit(2) from error


def load_policy(name: str, space: gym.Space[Any]) -> Policy:
    """Return the policy that the user named.

    Args:
        name: ``random``, which samples the space, or ``module:function``.
        space: Action space of one environment.

    Raises:
        BrokenModuleError: The module raised an error.
        EnvNameError: The module does not exist.
        typer.BadParameter: The name has another form, or the function does not exist or is not callable.
    """
    if name == "random":
        return lambda observation: space.sample()
    return import_policy(name, known=("random",))


def import_policy(name: str, known: Iterable[str]) -> Policy:
    """Return the policy ``module:function``; the current folder is searched too.

    Args:
        name: Text that the user typed.
        known: Names of the built-in policies, for the message.

    Raises:
        BrokenModuleError: The module raised an error.
        EnvNameError: The module does not exist.
        typer.BadParameter: The name has another form, or the function does not exist or is not callable.
    """
    origin, colon, function = name.rpartition(":")
    if not colon:
        raise typer.BadParameter(
            f"--policy must be {', '.join(map(repr, known))} or module:function, got {name!r}"
        )
    module = import_module(origin, f"the policy {name}", "module:function or path/to/file.py:function")
    policy = getattr(module, function, None)
    if not callable(policy):
        got = repr(policy) if hasattr(module, function) else f"a module without {function!r}"
        raise typer.BadParameter(f"--policy must be a function of an observation, got {got} for {name}")
    return policy  # type: ignore[no-any-return] # the first call shows whether the signature fits
