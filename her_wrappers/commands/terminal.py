"""Shared parts of all commands: exit codes, types of options, and output on the terminal."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, UseAppendAction, arg
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from her_wrappers.data.arrays import CorruptFileError
from her_wrappers.goals.environments import FORMS, EnvNameError
from her_wrappers.support.error_texts import raised_at

EXIT_CODES = (
    "Exit codes: 0 no errors, 1 errors found, 2 wrong usage, 3 the environment or the data cannot be used, "
    "130 ended by Ctrl-C. With --traceback, an error shows its whole traceback."
)

TYRO_CONFIG = (tyro.conf.DisallowNone, tyro.conf.HelptextFromCommentsOff)

REPEATABLE = {"--option", "--agent", "--select", "--ignore", "--info-keys", "--by"}
"""Options that may be given several times."""

COLORS = {"error": "bold red", "warning": "yellow", "info": "cyan"}


class CommandError(Exception):
    """An error that ends the command with ``exit_code`` and is shown to the user without a traceback."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[Any, ...]:  # of an exception from another process
        return type(self), (str(self), self.exit_code)


@contextlib.contextmanager
def exits_with(exit_code: int, *errors: type[Exception]) -> Iterator[None]:
    """In a ``with`` block, convert ``errors`` to CommandError with ``exit_code``, or 3 if a file is at fault.

    Errors that the user's code raised are not converted; `her_wrappers.cli.main` reports them.
    """
    try:
        yield
    except errors as error:
        if raised_at(error):
            raise
        is_file = isinstance(error, CorruptFileError) or isinstance(
            error.__cause__, CorruptFileError | OSError
        )
        raise CommandError(str(error), 3 if is_file else exit_code) from error


@contextlib.contextmanager
def advises_folder(run: object) -> Iterator[None]:
    """Extend the message of an EnvNameError: run the command in the folder in which ``run`` was started."""
    try:
        yield
    except EnvNameError as error:
        raise EnvNameError(
            f"{error}; if the environment is in a module or file of your own, run this command in the folder "
            f"in which {run} was started"
        ) from error


def parse(
    command: Callable[..., Any],
    arguments: Sequence[str],
    form: Callable[..., Any] | None = None,
    default: Any = tyro.MISSING_NONPROP,
) -> Any:
    """Parse the arguments of a command; call ``form``, by default the command itself, with the options."""
    names = [each.partition("=")[0].replace("_", "-") for each in arguments if each.startswith("--")]
    for name in names:
        if names.count(name) > 1 and name not in REPEATABLE:
            raise CommandError(f"{name} is given {names.count(name)} times; pass it once")
    lines = (command.__doc__ or "").partition("\n    Args:")[0].split("\n")  # no docstring with python -OO
    description = "\n".join([*(line.strip() for line in lines), EXIT_CODES])
    if shutil.get_terminal_size().columns < LEAST_COLUMNS:
        os.environ["COLUMNS"] = str(LEAST_COLUMNS)
    return tyro.cli(
        form or command,
        prog=f"her {command.__name__.replace('_', '-')}",
        description=description,
        args=list(arguments),
        default=default,
        config=TYRO_CONFIG,
        registry=REGISTRY,
    )


LEAST_COLUMNS = 20  # in a terminal of 4 columns, the layout of tyro's help does not end

REGISTRY = ConstructorRegistry()


@REGISTRY.primitive_rule
def _integer_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    """Rule for tyro: all integer options accept forms such as 1e6."""
    return _integer() if info.type is int else None


def _integer(minimum: int | None = None) -> PrimitiveConstructorSpec[int]:
    """Return the type of an integer option of at least ``minimum``; values may have forms such as 1e6."""

    def read(words: list[str]) -> int:
        text, number = words[0], math.nan
        with contextlib.suppress(ValueError):
            number = float(text)
            number = int(text)  # exact, but not possible for forms such as 1e6
        if number % 1 != 0 or (minimum is not None and number < minimum):  # NaN % 1 and inf % 1 are NaN
            bound = "" if minimum is None else f" of at least {minimum}"
            raise ValueError(f"expected an integer{bound}, got {text}")
        return int(number)

    return PrimitiveConstructorSpec(
        1, "N", read, lambda value: isinstance(value, int), lambda value: [str(value)]
    )


Positive: TypeAlias = Annotated[int, _integer(1)]
NotNegative: TypeAlias = Annotated[int, _integer(0)]

Environment: TypeAlias = Positional[Annotated[str, arg(metavar="ENV", help=f"The environment: {FORMS}.")]]

EnvOptions: TypeAlias = Annotated[
    UseAppendAction[tuple[str, ...]],
    arg(
        name="option",
        aliases=["-o"],
        metavar="NAME=VALUE",
        help="Option of the environment; `her envs ENV` lists the options of a bundled one.",
    ),
]
"""Options of an environment, each NAME=VALUE, which `parse_options` reads."""

Backend: TypeAlias = Annotated[Literal["process", "ray", "local"], arg(help="Where workers run.")]
Address: TypeAlias = Annotated[
    str | None, arg(metavar="HOST:PORT", help="Address of a Ray cluster, for --backend ray.")
]
Timeout: TypeAlias = Annotated[
    float | None,
    arg(metavar="SECONDS", help="Replace a worker that has not finished its round after this time."),
]
Policy: TypeAlias = Callable[[Any], Any]
"""``policy(observation) -> action``"""


def parse_options(
    options: Sequence[str],
    flag: str = "-o",
    example: str = "n_bits=5",
    parse_value: Callable[[str], Any] = json.loads,
) -> dict[str, Any]:
    """Return a dict of options from texts name=value; values that ``parse_value`` rejects remain strings."""
    parsed: dict[str, Any] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not (name and equals):
            raise CommandError(f"{flag} must be NAME=VALUE, such as {example}, got {option!r}")
        try:
            parsed[name] = parse_value(value)
        except (ValueError, RecursionError):  # also for integers of too many digits
            parsed[name] = value
    return parsed


def console() -> Console:
    """Return a console for reports, which does not break lines in a file or a pipe."""
    return Console(soft_wrap=not sys.stdout.isatty())


def print_report(report: Any) -> None:
    """Print a report as text, with colored severities on a terminal."""
    text = Text("\n".join(map(printable, report.text().split("\n"))))
    for severity, color in COLORS.items():
        text.highlight_regex(rf"(?m)^{severity}\b", color)
    console().print(text)


@dataclass(frozen=True)
class ReportOptions:
    """Options of a report: the rules to report, the format, and the findings that count for the exit code."""

    select: UseAppendAction[tuple[str, ...]] = ()
    """Report only rules whose codes begin with this prefix: GE1 selects GE101, GE102 and so on."""
    ignore: UseAppendAction[tuple[str, ...]] = ()
    """Do not report rules whose codes begin with this prefix."""
    format: Literal["text", "json", "github"] = "text"
    strict: FlagCreatePairsOff[bool] = False
    """Exit with code 1 for any finding, also for warnings and infos."""

    def prefixes(self) -> dict[str, Any]:
        """Return a dict of ``select`` and ``ignore`` (if given), each a list of prefixes in capitals."""
        values = {"select": self.select, "ignore": self.ignore}
        return {
            name: ",".join(each).replace(" ", "").upper().split(",") for name, each in values.items() if each
        }

    def alone(self) -> contextlib.redirect_stdout[Any]:
        """Redirect the output of the user's code from stdout to stderr, unless the report is text."""
        return contextlib.redirect_stdout(sys.stdout if self.format == "text" else sys.stderr)

    def finish(self, report: Any, location: tuple[str, int] | None = None) -> int:
        """Print a report; return exit code 1 if it has errors (with ``strict``, any findings), else 0.

        With ``--format github``, each finding is printed as a GitHub annotation of ``location`` (file, line).
        """
        if self.format == "text":
            print_report(report)
        else:
            print(report.json() if self.format == "json" else report.github(location))
        return int(bool(report.findings if self.strict else report.of_severity("error")))


Reporting: TypeAlias = OmitArgPrefixes[ReportOptions]
DEFAULT_REPORTING = ReportOptions()


@contextlib.contextmanager
def progress(verb: str, total: int, unit: str) -> Iterator[Callable[..., None]]:
    """Show a progress bar; yield a function that ignores its arguments and advances the bar by one unit."""
    if not sys.stderr.isatty():  # rich before 14.3 would print an empty line
        yield lambda *_: None
        return
    columns = (TextColumn(verb), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda *_: bar.advance(task)


def printable(text: str) -> str:
    """Return a text with escaped control characters, so that it cannot control the terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
