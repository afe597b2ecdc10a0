"""``her check``, ``her rules`` and ``her explain``."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias

import gymnasium as gym
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers.checker import GOAL_ENV_RULES, check_goal_env
from her_wrappers.checker.display import print_explanation, print_report, print_rules
from her_wrappers.checker.exceptions import is_library
from her_wrappers.commands.make import EnvOptions, parse_options
from her_wrappers.environments import call_factory, env_factory, present_folder
from her_wrappers.rules import unknown_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from her_wrappers.checker.replicas import AnyEnv, Factory


Location: TypeAlias = tuple[str, int]
"""A file, relative to the repository, and a line."""


class Format(StrEnum):
    """Format of a report."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


SelectedCodes: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Report only codes with this prefix: GE1 selects all of GE1xx.")
]
IgnoredCodes: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Do not report codes with this prefix.")
]
ReportFormat: TypeAlias = Annotated[Format, typer.Option("--format", help="Format of the report.")]
Strict: TypeAlias = Annotated[
    bool, typer.Option("--strict", help="Exit with code 1 for warnings and notes too.")
]


def check(
    environment: Annotated[
        str,
        typer.Argument(
            metavar="ID_OR_MODULE:FACTORY", help="An id, or a function that makes an environment."
        ),
    ],
    *,
    option: EnvOptions = None,
    steps: Annotated[int, typer.Option(min=1, help="Number of steps of the environment.")] = 3000,
    max_seconds: Annotated[
        float | None,
        typer.Option(help="Time [s] after which the main run stops; the experiments after it have no limit."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the check.")] = 0,
    select: SelectedCodes = None,
    ignore: IgnoredCodes = None,
    output: ReportFormat = Format.TEXT,
    strict: Strict = False,
) -> None:
    """Check a goal environment. Exit code 0: no errors, 1: errors, 2: wrong usage, 3: unusable environment.

    For example:

    - `her check her_envs/BitFlipping-v0 -o n_bits=15 --strict`
    - `her check my_envs:MyReach-v0 --steps 10000`
    - `her check my_envs:make_env --ignore GE203 --format json`
    - `her check my_envs:make_env --max-seconds 60 --format github`
    """
    options = parse_options(option)
    try:
        with present_folder(), _progress(steps) as advance:
            env, factory = _open(environment, options)
            location = _class_location(env) if output is Format.GITHUB else None
            made = [env]
            report = check_goal_env(
                lambda: made.pop() if made else factory(),
                max_steps=steps,
                max_seconds=max_seconds,
                select=codes(select),
                ignore=codes(ignore),
                seed=seed,
                on_step=advance,
            )
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    finish(report, output, strict=strict, location=location)


def rules(
    *,
    replay: Annotated[bool, typer.Option("--replay", help="List the rules of her check-replay.")] = False,
    doctor: Annotated[bool, typer.Option("--doctor", help="List the rules of her doctor.")] = False,
) -> None:
    """List the rules of her check, or of another command.

    For example:

    - `her rules`
    - `her rules --replay`
    - `her rules --doctor`
    """
    from her_wrappers.conformance.registry import REPLAY_RULES
    from her_wrappers.diagnosis import DIAGNOSIS_RULES

    listed: Any = REPLAY_RULES if replay else DIAGNOSIS_RULES if doctor else GOAL_ENV_RULES
    print_rules([rule for _, rule in sorted(listed.items())], console())


def explain(code: Annotated[str, typer.Argument(metavar="CODE", help="Code of a rule.")]) -> None:
    """Explain one rule, with a wrong and a right example.

    For example:

    - `her explain GE106`
    - `her explain HB101`
    - `her explain GD102`
    """
    from her_wrappers.conformance.registry import REPLAY_RULES
    from her_wrappers.diagnosis import DIAGNOSIS_RULES

    known: dict[str, Any] = {**GOAL_ENV_RULES, **REPLAY_RULES, **DIAGNOSIS_RULES}
    rule = known.get(code.upper())
    if rule is None:
        raise typer.BadParameter(unknown_code(code, known))
    print_explanation(rule, console())


def console() -> Console:
    """Return a console for reports."""
    return Console(soft_wrap=not sys.stdout.isatty())


def codes(options: Sequence[str] | None) -> list[str]:
    """Return rule codes in upper case.

    Args:
        options: Values of an option, each with one or more codes, separated by commas; None for none.
    """
    return [code.strip().upper() for option in options or () for code in option.split(",")]


def _open(name: str, options: dict[str, Any]) -> tuple[AnyEnv, Factory]:
    """Return the environment, and the function that makes others like it."""
    factory = env_factory(name, disable_env_checker=True)
    env = call_factory(name, factory, options)
    if not isinstance(env, gym.Env | gym.vector.VectorEnv):
        raise TypeError(f"{name} must return a gymnasium Env or VectorEnv, got {type(env).__name__}")
    return env, partial(factory, **options)


def _class_location(env: Any) -> Location | None:
    """Return file and line of the outermost class of an environment that is in the user's repository."""
    repository = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    while env is not None:
        env_class = type(env)
        env = getattr(env, "env", None)  # of a wrapper
        with contextlib.suppress(OSError, TypeError):  # the class has no source file
            file, (_, line) = Path(inspect.getfile(env_class)).resolve(), inspect.getsourcelines(env_class)
            is_installed = is_library(file) or "site-packages" in file.parts
            if file.is_relative_to(repository) and not is_installed:
                return file.relative_to(repository).as_posix(), line
    return None


@contextlib.contextmanager
def _progress(steps: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar, and yield the function that advances it by one step."""
    columns = (TextColumn("checking"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=steps)
        yield lambda: progress.advance(task)


def finish(report: Any, output: Format, *, strict: bool, location: Location | None = None) -> NoReturn:
    """Print a report, and end the command with the exit code of `exit_with_findings`.

    Args:
        report: The report.
        output: Format of the printed report.
        strict: Whether any finding counts, not only errors.
        location: File and line that GitHub annotates.
    """
    write_report(report, output, location)
    exit_with_findings(report, strict=strict)


def exit_with_findings(report: Any, *, strict: bool) -> NoReturn:
    """End the command with exit code 1 if the report has errors or, with ``strict``, any finding; else 0."""
    raise typer.Exit(int(bool(report.findings if strict else report.of_severity("error"))))


def write_report(report: Any, output: Format, location: Location | None = None) -> None:
    """Print a report in the format ``output``; GitHub annotates the file and line ``location``."""
    if output is Format.JSON:
        typer.echo(report.json())
    elif output is Format.GITHUB:
        typer.echo(report.github(location))
    else:
        print_report(report, console())
