"""What a page of results is made of: what measured, tables, and promises beside what was measured."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.markup import escape
from rich.table import Table


def machine() -> str:
    """Say what measured: processor, cores, system."""
    return f"{_processor()}, {os.cpu_count()} cores, {platform.system()}"


def versions(names: Iterable[str]) -> str:
    """Say which Python, and which of the packages are installed."""
    found = [f"Python {platform.python_version()}"]
    for name in names:
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


@dataclass(frozen=True)
class Grid:
    """A table.

    Attributes:
        title: What it shows.
        header: Names of the columns.
        rows: Cells.
    """

    title: str
    header: list[str]
    rows: list[list[str]]

    def rich(self) -> Table:
        """Return it for the terminal."""
        table = Table(*map(escape, self.header), title=self.title, title_justify="left")
        for row in self.rows:
            table.add_row(*(f"[red]{cell}[/red]" if cell == "MISSED" else escape(cell) for cell in row))
        return table

    def markdown(self) -> str:
        """Return it for a page."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return f"## {self.title}\n\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


@dataclass(frozen=True)
class Claim:
    """One promise beside its measurement.

    Attributes:
        what: The measured number, in words.
        promised: What it must be.
        hoped: What it is to become, or None.
        measured: What it is, or None where a peer is missing.
        more_is_better: Whether ``promised`` and ``hoped`` are lower bounds, not upper ones.
        applies: Whether the promise was made for what was measured.
    """

    what: str
    promised: float
    hoped: float | None
    measured: float | None
    more_is_better: bool
    applies: bool = True

    @property
    def verdict(self) -> str:
        """Whether the promise is met, and the hope."""
        if self.measured is None:
            return "not measured"
        if not self.applies:
            return "no promise at this size"
        if not self._reaches(self.measured, self.promised):
            return "MISSED"
        beyond = self.hoped is not None and self._reaches(self.measured, self.hoped)
        return "met, and the hope" if beyond else "met"

    @property
    def sign(self) -> str:
        """The relation between measurement and bounds."""
        return "≥" if self.more_is_better else "≤"

    def _reaches(self, measured: float, bound: float) -> bool:
        return measured >= bound if self.more_is_better else measured <= bound


def at_least(what: str, promised: float, measured: float | None) -> Claim:
    """Return the promise of a lower bound."""
    return Claim(what, promised, None, measured, more_is_better=True)


def at_most(what: str, promised: float, measured: float | None) -> Claim:
    """Return the promise of an upper bound."""
    return Claim(what, promised, None, measured, more_is_better=False)


def claim_grid(claims: Sequence[Claim]) -> Grid:
    """Return the table of promises and measurements; hopes have a column if there are any."""
    header = ["what", "measured", "promised", "hoped", ""]
    rows = [
        [
            claim.what,
            "" if claim.measured is None else f"{claim.measured:.3g}",
            f"{claim.sign} {claim.promised:g}",
            "" if claim.hoped is None else f"{claim.sign} {claim.hoped:g}",
            claim.verdict,
        ]
        for claim in claims
    ]
    if not any(row[3] for row in rows):
        header, *rows = ([*row[:3], row[4]] for row in [header, *rows])
    return Grid("Promised and measured", header, rows)
