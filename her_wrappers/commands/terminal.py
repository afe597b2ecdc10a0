"""Shared parts of all commands: exit codes, types of options, named policies, and output on the terminal."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NoReturn, TypeAlias

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, UseAppendAction, arg
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from her_wrappers.environments import FORMS, EnvNameError
from her_wrappers.files.arrays import CorruptFileError

EXIT_CODES = (
    "Exit codes: 0 no errors, 1 errors found, 2 wrong usage, 3 the environment or the data cannot be used, "
    "130 ended by Ctrl-C."
)

TYRO_CONFIG = (tyro.conf.DisallowNone, tyro.conf.HelptextFromCommentsOff)

REPEATABLE = {"--option", "--select", "--ignore", "--info-keys", "--by"}
"""Options that may be given several times."""

COLORS = {"error": "bold red", "warning": "yellow", "info": "cyan"}
"""Colors of severities."""


class CommandError(Exception):
    """An error that is shown to the user without a traceback; ``exit_code`` is one of `EXIT_CODES`."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def message_of(error: BaseException) -> str:
    """Return the message of an error; for an OSError, the path and the reason."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"cannot use {error.filename}: {error.strerror}"
    return str(error)


def fail(message: str) -> NoReturn:
    """End the command with exit code 3, since an environment or data cannot be used."""
    raise CommandError(message, 3)


@contextlib.contextmanager
def exits_with(exit_code: int, *errors: type[Exception]) -> Iterator[None]:
    """End the command with ``exit_code`` after one of ``errors``, with 3 after missing or damaged files."""
    try:
        yield
    except errors as error:
        is_file = isinstance(error, CorruptFileError) or isinstance(
            error.__cause__, CorruptFileError | OSError
        )
        raise CommandError(message_of(error), 3 if is_file else exit_code) from error


@contextlib.contextmanager
def advises_folder(run: object) -> Iterator[None]:
    """Add advice to the error if the module of a run's environment is not found."""
    try:
        yield
    except EnvNameError as error:
        raise EnvNameError(f"{error}; run this command in the folder in which {run} was started") from error


def require_single(arguments: Sequence[str]) -> None:
    """Raise CommandError if an option that takes one value is given twice."""
    names = [each.partition("=")[0].replace("_", "-") for each in arguments if each.startswith("--")]
    for name in names:
        if names.count(name) > 1 and name not in REPEATABLE:
            raise CommandError(f"{name} must be given once, got it {names.count(name)} times")


def parse(
    form: Callable[..., Any],
    name: str,
    arguments: Sequence[str],
    about: str,
    default: Any = tyro.MISSING_NONPROP,
) -> Any:
    """Parse the arguments of a command, call its function ``form`` with them, and return the result.

    The parameters of ``form`` are the options. ``--help`` shows the part of ``about`` before ``Args:``.
    """
    lines = about.partition("\n    Args:")[0].split("\n")
    description = "\n".join([*(line.strip() for line in lines), EXIT_CODES])
    return tyro.cli(
        form,
        prog=f"her {name}",
        description=description,
        args=list(arguments),
        default=default,
        config=TYRO_CONFIG,
        registry=REGISTRY,
    )


REGISTRY = ConstructorRegistry()
"""Types of options of all commands."""


@REGISTRY.primitive_rule
def _integer_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    """Rule for tyro: all integer options accept forms such as 1e6."""
    return _integer() if info.type is int else None


def _integer(minimum: int | None = None) -> PrimitiveConstructorSpec[int]:
    """Return a type of option: an integer of at least ``minimum``, also written as 1e6."""

    def read(words: list[str]) -> int:
        try:
            number = int(words[0])
        except ValueError:
            number = int(float(words[0])) if float(words[0]).is_integer() else None  # type: ignore[assignment]
        if number is None or (minimum is not None and number < minimum):
            bound = "" if minimum is None else f" of at least {minimum}"
            raise ValueError(f"expected an integer{bound}, got {words[0]}")
        return number

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
        help="Option of the environment; `her envs` lists those of the bundled ones.",
    ),
]
"""Options of an environment, for `parse_options`."""

Backend: TypeAlias = Annotated[Literal["process", "ray", "local"], arg(help="Where workers run.")]
Address: TypeAlias = Annotated[
    str | None, arg(metavar="HOST:PORT", help="Address of a Ray cluster, for --backend ray.")
]
Policy: TypeAlias = Callable[[Any], Any]
"""``policy(observation) -> action``"""


def parse_options(options: Sequence[str]) -> dict[str, Any]:
    """Return the options of an environment from ``name=value`` pairs. A value that is not JSON is a string.

    Example:
        >>> parse_options(["n_bits=5", "goal=ones"])
        {'n_bits': 5, 'goal': 'ones'}
    """
    parsed: dict[str, Any] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not (name and equals):
            raise CommandError(f"-o must be NAME=VALUE, such as n_bits=5, got {option!r}")
        try:
            parsed[name] = json.loads(value)
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
    """Rules that are reported, and the form of the report."""

    select: UseAppendAction[tuple[str, ...]] = ()
    """Report only rules whose codes have this prefix: GE1 selects all of GE1xx."""
    ignore: UseAppendAction[tuple[str, ...]] = ()
    """Do not report rules whose codes have this prefix."""
    format: Literal["text", "json", "github"] = "text"
    strict: FlagCreatePairsOff[bool] = False
    """Exit with code 1 for warnings and notes too."""

    def prefixes(self) -> tuple[list[str], list[str]]:
        """Return the prefixes to select and to ignore; an option may have several, separated by commas."""
        select, ignore = (
            [code.strip().upper() for option in options for code in option.split(",")]
            for options in (self.select, self.ignore)
        )
        return select, ignore

    def finish(self, report: Any, location: tuple[str, int] | None = None) -> int:
        """Print a report, and return the exit code: 1 with errors or, if strict, any finding; else 0.

        GitHub annotates ``location``, a file and a line.
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
    """Show a progress bar; yield a function that advances the bar by one unit and ignores its arguments."""
    columns = (TextColumn(verb), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task("", total=total)
        yield lambda *_: bar.advance(task)


def printable(text: str) -> str:
    """Return a text with escaped control characters, so that it cannot control the terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
