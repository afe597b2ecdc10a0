"""Pages of results of benchmarks and studies: command line, provenance, requirements, tables, method."""

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
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    import numpy.typing as npt

PUBLISHED, QUICK_RESULTS = Path("docs/results"), Path("runs/benchmarks")

PACKAGES = ("her-toolkit", "numpy", "torch", "gymnasium")
"""Packages whose versions every page shows, if they are installed."""


def command_line(module: str, arguments: Iterable[str]) -> str:
    """Return the command line of a module."""
    return shlex.join(["python", "-m", module, *arguments])


def provenance(command: str, when: datetime, packages: Iterable[str] = ()) -> dict[str, str]:
    """Return facts for a page: command, date, machine and versions.

    Args:
        command: The command line.
        when: Time of the measurement.
        packages: More packages whose versions are shown if they are installed.
    """
    versions = [f"Python {platform.python_version()}"]
    for name in dict.fromkeys([*PACKAGES, *packages]):
        with suppress(PackageNotFoundError):
            versions.append(f"{name} {version(name)}")
    return {
        "command": f"`{command}`",
        "date": f"{when:%Y-%m-%d}",
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


@dataclass(frozen=True)
class Grid:
    """A table.

    Attributes:
        title: Title of the table.
        header: Names of the columns.
        rows: Cells of each row.
    """

    title: str
    header: list[str]
    rows: list[list[str]]

    def rich(self) -> Table:
        """Return the table for the terminal."""
        table = Table(title=escape(self.title), title_justify="left")
        for name in self.header:
            table.add_column(escape(name), overflow="fold")
        for row in self.rows:
            table.add_row(*(f"[red]{cell}[/red]" if cell == "MISSED" else escape(cell) for cell in row))
        return table

    def markdown(self) -> str:
        """Return the table for a page, with its title."""
        return f"## {self.title}\n\n{self.cells()}"

    def cells(self) -> str:
        """Return the table for a page, without its title."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


@dataclass(frozen=True)
class Requirement:
    """A required bound and its measurement.

    Attributes:
        what: Description of the measured quantity.
        promised: The required bound, or None.
        hoped: A better bound that is not required, or None.
        measured: The measurement, or None if it is missing.
        more_is_better: Whether ``promised`` and ``hoped`` are lower bounds; otherwise upper bounds.
    """

    what: str
    promised: float | None
    hoped: float | None
    measured: float | None
    more_is_better: bool

    @property
    def verdict(self) -> str:
        """Text that says whether the promised and the hoped-for bound hold."""
        if self.measured is None:
            return "not measured"
        if self.promised is None:
            return "no promise"
        if not self._reaches(self.measured, self.promised):
            return "MISSED"
        beyond = self.hoped is not None and self._reaches(self.measured, self.hoped)
        return "hoped bound met" if beyond else "met"

    def bound(self, value: float | None) -> str:
        """Return ``promised`` or ``hoped`` as a cell of a table."""
        if value is None:
            return ""
        return f"{'≥' if self.more_is_better else '≤'} {_number(value, 'g')}"

    def _reaches(self, measured: float, bound: float) -> bool:
        return measured >= bound if self.more_is_better else measured <= bound


def at_least(
    what: str, promised: float | None, measured: float | None, *, hoped: float | None = None
) -> Requirement:
    """Return a requirement with a lower bound; the arguments are attributes of `Requirement`."""
    return Requirement(what, promised, hoped, measured, more_is_better=True)


def at_most(
    what: str, promised: float | None, measured: float | None, *, hoped: float | None = None
) -> Requirement:
    """Return a requirement with an upper bound; the arguments are attributes of `Requirement`."""
    return Requirement(what, promised, hoped, measured, more_is_better=False)


def requirement_grid(requirements: Iterable[Requirement], *, quick: bool = False) -> Grid:
    """Return the table of requirements, with a column of hoped-for bounds if there are any.

    Args:
        requirements: The requirements, one for each row.
        quick: Whether this is a short measurement, which is not judged.
    """
    header = ["quantity", "measured", "promised", "hoped", ""]
    rows = [
        [
            each.what,
            "" if each.measured is None else _number(each.measured, ".3g"),
            each.bound(each.promised),
            each.bound(each.hoped),
            "no promise at this size" if quick else each.verdict,
        ]
        for each in requirements
    ]
    if not any(row[3] for row in rows):
        header, *rows = ([*row[:3], row[4]] for row in [header, *rows])
    return Grid("Promised and measured", header, rows)


def _number(value: float, form: str) -> str:
    """Return a number as text, from 1,000 on with separators of thousands."""
    return f"{value:{',.0f' if 1000 <= value < np.inf else form}}"


@dataclass(frozen=True)
class Page:
    """A page of results, for the terminal and for a file.

    Attributes:
        title: Title of the page.
        about: Description of the measurement, as Markdown.
        grids: Tables, first that of the requirements, if there are any.
        facts: Facts about the measurement, by name; the first ones are those of `provenance`.
        method: Description of the method, as Markdown; can contain sections.
        picture: Name of a picture in the same folder, or "".
    """

    title: str
    about: str
    grids: Sequence[Grid]
    facts: Mapping[str, str]
    method: str
    picture: str = ""

    def publish(self, path: Path, console: Console) -> None:
        """Print facts and tables, and write the page to a file; create its folder."""
        for name, fact in self.facts.items():
            console.print(f"{name}: {fact}", soft_wrap=True, highlight=False, markup=False)
        console.print(*(grid.rich() for grid in self.grids), sep="\n")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.markdown(), encoding="utf-8")
        console.print(f"written to {path}", soft_wrap=True)

    def markdown(self) -> str:
        """Return the page as Markdown."""
        picture = f"![{self.title}]({self.picture})\n\n" if self.picture else ""
        tables = "\n".join(grid.markdown() for grid in self.grids)
        facts = "".join(f"- {name}: {fact}\n" for name, fact in self.facts.items())
        return (
            f"# {self.title}\n\n{picture}{self.about.strip()}\n\n{tables}\n"
            f"## How it was measured\n\n{facts}\n{self.method.strip()}\n"
        )


@dataclass(frozen=True)
class Benchmark:
    """A command that measures something and writes the results as a Markdown page.

    Attributes:
        name: Name of the module, and of the file of the page.
        title: Title of the page.
        doc: Docstring of the module: a description, indented examples, and the method.
        peers: Packages with which this project is compared; the page lists their versions.
    """

    name: str
    title: str
    doc: str
    peers: tuple[str, ...] = ()

    def parse(
        self, arguments: Sequence[str] | None, quick: str, **options: Mapping[str, Any]
    ) -> argparse.Namespace:
        """Read the command line.

        Args:
            arguments: Arguments of the command; None for ``sys.argv``.
            quick: Help text of ``--quick``.
            **options: More options by name, as arguments of `argparse.ArgumentParser.add_argument`.

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
        command = command_line(f"benchmarks.{self.name}", sys.argv[1:] if arguments is None else arguments)
        parsed.provenance = provenance(command, datetime.now(UTC), self.peers)
        if hasattr(os, "getloadavg"):
            parsed.provenance["machine"] += f", load {os.getloadavg()[0]:.1f} at the start"
        return parsed

    def publish(
        self,
        options: argparse.Namespace,
        grids: Sequence[Grid],
        facts: Mapping[str, str],
        *,
        note: str = "",
        picture: str = "",
    ) -> Page:
        """Print the results, and write the page.

        Args:
            options: Result of `parse`.
            grids: Tables, first that of the requirements.
            facts: More facts about this run, by name.
            note: A note after the description.
            picture: Name of a picture in the folder of the page, or "".

        Returns:
            The page.
        """
        about, _, rest = self.doc.partition("\n\nFor example:\n\n")
        method = rest.partition("\n\n")[2]  # after the examples
        about = f"{about.strip()}\n\n{note}" if note else about
        page = Page(self.title, about, grids, options.provenance | facts, method, picture)
        page.publish(options.out, Console())
        return page

    @property
    def _file(self) -> str:
        return f"{self.name}.md"


def count(text: str) -> int:
    """Read an option that is an integer of at least 1.

    Raises:
        argparse.ArgumentTypeError: ``text`` is not an integer of at least 1.
    """
    if not (text.isdecimal() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text}")
    return int(text)
