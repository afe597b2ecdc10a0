"""The pages of results of studies and benchmarks: promises with measurements, tables, and the method."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    import numpy.typing as npt
    from rich.console import Console

PACKAGES = ("her-toolkit", "numpy", "torch", "gymnasium")
"""Packages whose versions are on every page."""


def command_line(module: str, arguments: Iterable[str]) -> str:
    """Return the command line of a module."""
    return shlex.join(["python", "-m", module, *arguments])


def provenance(command: str, when: datetime, packages: Iterable[str] = ()) -> dict[str, str]:
    """Return the first facts of a page: command, date, machine, versions.

    Args:
        command: The command line.
        when: Time of the measurement.
        packages: Packages whose versions are on the page after those of `PACKAGES`, if they are installed.
    """
    return {
        "command": f"`{command}`",
        "date": f"{when:%Y-%m-%d}",
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "versions": _versions([*PACKAGES, *packages]),
    }


def _versions(names: Iterable[str]) -> str:
    found = [f"Python {platform.python_version()}"]
    for name in dict.fromkeys(names):
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def spread(values: npt.ArrayLike, form: str = ".2f") -> str:
    """Return median and range as a cell of a table; empty without values."""
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
class Claim:
    """A promise and its measurement.

    Attributes:
        what: The measured number, in words.
        promised: The bound that must hold, or None without a promise.
        hoped: The bound that is a goal, or None.
        measured: The measurement, or None if a peer is not installed.
        more_is_better: Whether ``promised`` and ``hoped`` are lower bounds, not upper ones.
    """

    what: str
    promised: float | None
    hoped: float | None
    measured: float | None
    more_is_better: bool

    @property
    def verdict(self) -> str:
        """Whether the promised and the hoped bound hold, in words."""
        if self.measured is None:
            return "not measured"
        if self.promised is None:
            return "no promise"
        if not self._reaches(self.measured, self.promised):
            return "MISSED"
        beyond = self.hoped is not None and self._reaches(self.measured, self.hoped)
        return "met, and the hope" if beyond else "met"

    def bound(self, value: float | None) -> str:
        """Return ``promised`` or ``hoped`` as a cell."""
        if value is None:
            return ""
        return f"{'≥' if self.more_is_better else '≤'} {value:g}"

    def _reaches(self, measured: float, bound: float) -> bool:
        return measured >= bound if self.more_is_better else measured <= bound


def at_least(
    what: str, promised: float | None, measured: float | None, *, hoped: float | None = None
) -> Claim:
    """Return the claim that a measurement has a lower bound."""
    return Claim(what, promised, hoped, measured, more_is_better=True)


def at_most(
    what: str, promised: float | None, measured: float | None, *, hoped: float | None = None
) -> Claim:
    """Return the claim that a measurement has an upper bound."""
    return Claim(what, promised, hoped, measured, more_is_better=False)


def claim_grid(claims: Iterable[Claim], *, quick: bool = False) -> Grid:
    """Return the table of promises and measurements, with a column of hopes if there are any.

    Args:
        claims: The claims, one for each row.
        quick: Whether this is a short measurement, for which nothing is promised.
    """
    header = ["what", "measured", "promised", "hoped", ""]
    rows = [_claim_row(claim, quick) for claim in claims]
    if not any(row[3] for row in rows):
        header, *rows = ([*row[:3], row[4]] for row in [header, *rows])
    return Grid("Promised and measured", header, rows)


def _claim_row(claim: Claim, quick: bool) -> list[str]:
    measured = "" if claim.measured is None else f"{claim.measured:.3g}"
    verdict = "no promise at this size" if quick else claim.verdict
    return [claim.what, measured, claim.bound(claim.promised), claim.bound(claim.hoped), verdict]


@dataclass(frozen=True)
class Page:
    """Results, for the terminal and for a file.

    Attributes:
        title: Title of the page.
        about: Description of the measurement, as Markdown.
        grids: Tables, first the one of the promises.
        facts: Facts about the measurement, by name, first those of `provenance`.
        method: Description of the method, as Markdown; may have sections of its own.
        picture: Name of a picture in the same folder, or "".
    """

    title: str
    about: str
    grids: Sequence[Grid]
    facts: Mapping[str, str]
    method: str
    picture: str = ""

    def publish(self, path: Path, console: Console) -> None:
        """Show facts and tables, and write the page to a file; its folder is created."""
        for name, fact in self.facts.items():
            console.print(f"{name}: {fact}", soft_wrap=True, highlight=False, markup=False)
        console.print(*(grid.rich() for grid in self.grids), sep="\n")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.markdown(), encoding="utf-8")
        console.print(f"written to {path}", soft_wrap=True)

    def markdown(self) -> str:
        """Return the text of the file."""
        picture = f"![{self.title}]({self.picture})\n\n" if self.picture else ""
        tables = "\n".join(grid.markdown() for grid in self.grids)
        facts = "".join(f"- {name}: {fact}\n" for name, fact in self.facts.items())
        return (
            f"# {self.title}\n\n{self.about.strip()}\n\n{picture}{tables}\n"
            f"## How it was measured\n\n{facts}\n{self.method.strip()}\n"
        )
