"""``her check``, ``her rules`` and ``her explain``."""

from __future__ import annotations

import contextlib
import sys
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import gymnasium as gym
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers.checker.check import open_env, run_check
from her_wrappers.checker.collect import Budget
from her_wrappers.checker.display import print_explanation, print_report, print_rules
from her_wrappers.checker.registry import RULES, selected, unknown_code
from her_wrappers.commands.make import EnvOptions, make_env, parse_options
from her_wrappers.commands.terminal import fail
from her_wrappers.conformance.registry import REPLAY_RULES
from her_wrappers.environments import BrokenModuleError, find_env, present_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from her_wrappers.checker.replicas import AnyEnv, Factory
    from her_wrappers.checker.report import Report


class Format(StrEnum):
    """How a report is written."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def check(
    environment: Annotated[
        str,
        typer.Argument(
            metavar="ID_OR_MODULE:FACTORY", help="A registered id, or a function that makes an environment."
        ),
    ],
    *,
    option: EnvOptions = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps to take.")] = 3000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the check.")] = 0,
    select: Annotated[
        list[str] | None, typer.Option(help="Report these codes only; GE1 means all of GE1xx.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Do not report these codes.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to write the report.")] = Format.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings and notes fail too.")] = False,
) -> None:
    """Check a goal environment. Exit code 0: clean, 1: findings, 2: wrong usage.

    For example:

    - `her check her_envs/BitFlipping-v0 -o n_bits=15 --strict`
    - `her check my_envs:MyReach-v0 --steps 10000`
    - `her check my_envs:make_env --ignore GE203 --format json`
    """
    options = parse_options(option)
    try:
        rules = selected(codes(select), codes(ignore))
        with present_folder(), _progress(steps) as advance:
            report = run_check(*_open(environment, options), Budget(steps, seed=seed, on_step=advance), rules)
    except BrokenModuleError as error:
        fail(str(error))
    except (TypeError, ValueError) as error:
        reject(error)
    _write(report, output)
    exit_with(int(bool(report.findings if strict else report.of_severity("error"))))


def rules(
    *,
    replay: Annotated[bool, typer.Option("--replay", help="List the rules of her check-replay.")] = False,
) -> None:
    """List all rules.

    For example:

    - `her rules`
    - `her rules --replay`
    """
    listed = REPLAY_RULES if replay else RULES
    print_rules([rule for _, rule in sorted(listed.items())], console())


def explain(code: Annotated[str, typer.Argument(metavar="CODE", help="Code of a rule.")]) -> None:
    """Explain one rule, with a wrong and a right example.

    For example:

    - `her explain GE106`
    - `her explain HB101`
    """
    known = RULES | REPLAY_RULES
    rule = known.get(code.upper())
    if rule is None:
        reject(ValueError(unknown_code(code, known)))
    print_explanation(rule, console())


def console() -> Console:
    """Return a console for reports."""
    return Console(soft_wrap=not sys.stdout.isatty())


def reject(error: Exception) -> NoReturn:
    """Say what was wrong with what the user typed.

    Raises:
        typer.BadParameter: Always.
    """
    raise typer.BadParameter(str(error)) from error


def exit_with(exit_code: int) -> NoReturn:
    """End the command.

    Raises:
        typer.Exit: Always.
    """
    raise typer.Exit(exit_code)


def codes(options: Sequence[str] | None) -> list[str]:
    """Return rule codes from options that may hold several each."""
    return [code.strip().upper() for option in options or () for code in option.split(",")]


def _open(environment: str, options: dict[str, Any]) -> tuple[AnyEnv, Factory | None]:
    """Return the environment of the command line, and the function that makes others like it."""
    found = find_env(environment)
    if not isinstance(found, str):
        return open_env(partial(found, **options))
    options = {"disable_env_checker": True, **options}
    return make_env(found, **options), partial(gym.make, found, **options)


@contextlib.contextmanager
def _progress(steps: int) -> Iterator[Callable[[], None]]:
    """Show a bar on the terminal, and give the function that moves it."""
    columns = (TextColumn("checking"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=steps)
        yield lambda: progress.advance(task)


def _write(report: Report, output: Format) -> None:
    if output is Format.JSON:
        typer.echo(report.json())
    elif output is Format.GITHUB:
        typer.echo(report.github())
    else:
        print_report(report, console())
