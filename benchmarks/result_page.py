"""Pages of results: question, answer, figure, tables, and facts about the measurement."""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markdown import Markdown

if TYPE_CHECKING:
    import numpy.typing as npt

PUBLISHED, QUICK_RESULTS = Path("docs/results"), Path("runs/benchmarks")

PACKAGES = ("her-toolkit", "numpy", "torch", "gymnasium")
"""Packages whose versions every page shows, if they are installed."""


def provenance(command: str, packages: Iterable[str] = ()) -> dict[str, str]:
    """Return facts for a page: command with date, machine, and versions of `PACKAGES` and of ``packages``."""
    versions = [f"Python {platform.python_version()}"]
    for name in dict.fromkeys([*PACKAGES, *packages]):
        with suppress(PackageNotFoundError):
            versions.append(f"{name} {version(name)}")
    return {
        "command": f"`{command}`, {datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "versions": ", ".join(versions),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def spread(values: npt.ArrayLike, form: str = ".2f") -> str:
    """Return the median and the range as a cell, in the number format ``form``; "" without values."""
    numbers = np.asarray(values, float)
    if not numbers.size:
        return ""
    middle, low, high = (f"{value:{form}}" for value in (np.median(numbers), numbers.min(), numbers.max()))
    return middle if low == high else f"{middle} ({low} to {high})"


def in_words(ratio: float) -> str:
    """Return a text such as "2.0 times faster"; ``ratio`` is the cost of the other over the own cost."""
    factor = max(ratio, 1 / ratio)
    return f"{factor:.{0 if factor >= 9.95 else 1}f} times {'faster' if ratio > 1 else 'slower'}"


def compared_with(other: str, ratio: float) -> str:
    """Return a text such as "2.0 times faster than X"; ``ratio`` is the cost of X over the own cost."""
    is_equal = abs(ratio - 1) < 0.05  # "1.0 times"
    return f"about as fast as {other}" if is_equal else f"{in_words(ratio)} than {other}"


def listing(parts: Sequence[str]) -> str:
    """Return parts of a sentence, separated by commas and a last "and"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def markdown_table(header: Sequence[object], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table, without a line break at its end."""
    head, *body = (f"| {' | '.join(map(str, cells))} |" for cells in [header, *rows])
    return "\n".join([head, "|" + "---|" * len(header), *body])


@dataclass(frozen=True)
class Grid:
    """A table."""

    title: str
    header: list[str]
    rows: list[list[str]]

    def markdown(self, level: int = 2) -> str:
        """Return the table for a page, with its title as a heading."""
        return f"{'#' * level} {self.title}\n\n{markdown_table(self.header, self.rows)}\n"


@dataclass(frozen=True)
class Requirement:
    """A measured quantity, and the bound that this project requires for this quantity."""

    what: str
    bound: float
    measured: float | None
    more_is_better: bool  # the bound is a lower one

    @property
    def is_met(self) -> bool | None:
        """Whether the bound holds; None without a measurement."""
        if self.measured is None:
            return None
        return self.measured >= self.bound if self.more_is_better else self.measured <= self.bound

    def __str__(self) -> str:
        limit = f"at {'least' if self.more_is_better else 'most'} {_number(self.bound, 'g')}"
        return f"{self.what}: {self.value} (required: {limit})"

    @property
    def value(self) -> str:
        """The measurement as a cell of a table."""
        return "not measured" if self.measured is None else _number(self.measured, ".3g")


def at_least(what: str, bound: float, measured: float | None) -> Requirement:
    """Return a requirement with a lower bound."""
    return Requirement(what, bound, measured, more_is_better=True)


def at_most(what: str, bound: float, measured: float | None) -> Requirement:
    """Return a requirement with an upper bound."""
    return Requirement(what, bound, measured, more_is_better=False)


def _number(value: float, form: str) -> str:
    """Return a number as text in the format ``form``; numbers from 1,000 have thousands separators."""
    return f"{value:{',.0f' if 1000 <= value < np.inf else form}}"


@dataclass(frozen=True)
class Page:
    """A page of results, for the terminal and for a file."""

    question: str  # the title
    answer: str  # one or two sentences with the most important numbers
    grids: Sequence[Grid]
    facts: Mapping[str, str]  # about the measurement, by name: first those of `provenance`
    method: str  # Markdown
    picture: str = ""  # name of a file in the same folder
    missed: Sequence[Requirement] = ()
    details: Sequence[Grid] = ()  # tables after the method

    def publish(self, path: Path, console: Console) -> None:
        """Print the page, and write it to a file; create its folder."""
        console.print(Markdown(self.markdown()))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.markdown(), encoding="utf-8")
        console.print(f"written to {path}", soft_wrap=True)

    def markdown(self) -> str:
        """Return the page as Markdown."""
        parts = [f"# {self.question}\n", f"{self.answer}\n"]
        if self.picture:
            parts.append(f"![{self.question}]({self.picture})\n")
        parts += [grid.markdown() for grid in self.grids]
        if self.missed:
            parts.append("## Below the requirements of this project\n")
            parts.append("".join(f"- {each}\n" for each in self.missed))
        parts.append("## How it was measured\n")
        parts.append("".join(f"- {name}: {fact}\n" for name, fact in self.facts.items()))
        parts.append("The [common method](index.md) applies.\n")
        parts.append(f"{self.method.strip()}\n")
        parts += [grid.markdown(level=3) for grid in self.details]
        return "\n".join(parts)


@dataclass(frozen=True)
class Benchmark:
    """A command that measures something and writes the results as a Markdown page."""

    name: str  # of the module, and of the file of the page
    question: str
    doc: str  # docstring of the module: a description, indented examples, and the method
    peers: tuple[str, ...] = ()  # packages to compare with; the page lists their versions

    def parse(
        self, arguments: Sequence[str] | None, quick: str, **options: Mapping[str, Any]
    ) -> argparse.Namespace:
        """Read the command line.

        Args:
            arguments: Arguments of the command; None for ``sys.argv``.
            quick: Help text of ``--quick``.
            **options: Arguments of `argparse.ArgumentParser.add_argument`, by the name of the option.

        Returns:
            ``quick``, ``out`` (the file of the page), ``provenance`` (facts for the page), and the options.
        """
        parser = argparse.ArgumentParser(
            prog=f"python -m benchmarks.{self.name}",
            description=self.doc,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("--quick", action="store_true", help=quick)
        parser.add_argument(
            "--out",
            type=Path,
            metavar="FILE",
            help=f"the page [{PUBLISHED / self._file}, or {QUICK_RESULTS / self._file} with --quick]",
        )
        for name, settings in options.items():
            parser.add_argument(f"--{name}", **settings)
        parsed = parser.parse_args(arguments)
        if parsed.out is not None and parsed.out.is_dir():
            parser.error(f"--out must be a file, got the folder {parsed.out}")
        parsed.out = parsed.out or (QUICK_RESULTS if parsed.quick else PUBLISHED) / self._file
        given = sys.argv[1:] if arguments is None else arguments
        command = shlex.join(["python", "-m", f"benchmarks.{self.name}", *given])
        parsed.provenance = provenance(command, self.peers)
        if hasattr(os, "getloadavg"):
            parsed.provenance["machine"] += f", load {os.getloadavg()[0]:.1f}"
        return parsed

    def publish(
        self,
        options: argparse.Namespace,
        answer: str,
        grids: Sequence[Grid],
        facts: Mapping[str, str],
        *,
        requirements: Iterable[Requirement] = (),
        picture: str = "",
        details: Sequence[Grid] = (),
    ) -> Page:
        """Print the results, and write the page; the arguments are the attributes of `Page`.

        Unless ``--quick`` is given, the page lists the requirements that are not met.
        """
        method = self.doc.partition("\n\nFor example:\n\n")[2].partition("\n\n")[2]  # after the examples
        missed = [each for each in requirements if each.is_met is False and not options.quick]
        facts = options.provenance | facts
        page = Page(self.question, answer, grids, facts, method, picture, missed, details)
        page.publish(options.out, Console())
        return page

    @property
    def _file(self) -> str:
        return f"{self.name}.md"


def count(text: str) -> int:
    """Convert the text of an option to an integer of at least 1."""
    if not (text.isdecimal() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text}")
    return int(text)
