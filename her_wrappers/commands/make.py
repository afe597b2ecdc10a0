"""Environments and policies from what a user types."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeAlias

import gymnasium as gym
import typer
from rich.console import Console
from rich.markup import escape

from her_wrappers import SinkError, environments
from her_wrappers.commands.terminal import fail
from her_wrappers.environments import present_folder

AGENTS_PACKAGES = ("torch", "matplotlib", "tensorboard")
"""Modules of the extra `agents`."""

OPTIONS_HELP = "Options of the environment: name=value, as often as needed, or a JSON object."

EnvOptions: TypeAlias = Annotated[
    list[str] | None, typer.Option("--option", "-o", "--kwargs", metavar="NAME=VALUE", help=OPTIONS_HELP)
]
"""How commands take options of an environment; `parse_options` reads them."""

Policy: TypeAlias = Callable[[Any], Any]
"""``policy(observation) -> action``"""


def parse_options(options: list[str] | None) -> dict[str, Any]:
    """Read ``name=value`` pairs, where values are JSON and what is no JSON is a word, and JSON objects.

    Raises:
        typer.BadParameter: An option is neither.

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
    """Read a JSON object.

    Raises:
        typer.BadParameter: It is none.
    """
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


def make_env(env_id: str, /, **options: Any) -> gym.Env[Any, Any]:
    """Make an environment by its name, see `her_wrappers.environments.find_env`.

    Raises:
        typer.BadParameter: The environment does not exist, or does not take the options.
    """
    try:
        return environments.make_env(env_id, **options)
    except environments.BrokenModuleError as error:
        fail(str(error))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


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
        if isinstance(error, ModuleNotFoundError) and error.name in AGENTS_PACKAGES:
            text = f'this command needs {error.name}; run: pip install "her-toolkit[agents]"'
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {escape(text)}")
        raise typer.Exit(2) from error


def load_policy(name: str, space: gym.Space[Any]) -> Policy:
    """Find a policy by ``module:function``, in the present folder too; ``random`` samples the space.

    Raises:
        typer.BadParameter: There is no such function.
    """
    if name == "random":
        return lambda observation: space.sample()
    return import_policy(name, known=("random",))


def import_policy(name: str, known: Iterable[str]) -> Policy:
    """Find a policy by ``module:function``, in the present folder too.

    Args:
        name: As the user typed it.
        known: Names that would have been understood besides, for the message.

    Raises:
        typer.BadParameter: There is no such function.
    """
    module, colon, function = name.partition(":")
    if not colon:
        raise typer.BadParameter(f"expected {', '.join(map(repr, known))} or module:function, got {name!r}")
    try:
        with present_folder():
            policy = getattr(importlib.import_module(module), function)
    except Exception as error:  # whatever the module raises while it is imported
        raise typer.BadParameter(f"cannot load the policy {name}: {type(error).__name__}: {error}") from error
    if not callable(policy):
        raise typer.BadParameter(f"the policy must be a function of an observation, got {policy!r}")
    return policy  # type: ignore[no-any-return] # its signature shows when it is called
