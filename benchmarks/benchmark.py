"""Benchmark: what the commands that measure have in common, their options and their pages."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from her_agents.studies.result_page import Grid, Page, command_line, provenance

PUBLISHED, LOOKED_AT = Path("docs/results"), Path("runs/benchmarks")


@dataclass(frozen=True)
class Benchmark:
    """A command that measures.

    Attributes:
        name: Of its module, and of its page's file.
        title: Of its page.
        doc: Docstring of its module: what is measured, examples, indented, and the method.
        peers: Packages that ours is compared with.
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
            arguments: Of the command; None for those that it was called with.
            quick: What ``--quick`` does.
            **options: More options by their names, as `argparse.ArgumentParser.add_argument` takes them.

        Returns:
            ``quick``, ``out`` (the file of the page), ``provenance`` (where the numbers will come from), and
            the options.
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
            help=f"the page [{PUBLISHED / self._file}, or {LOOKED_AT / self._file} with --quick]",
        )
        for name, settings in options.items():
            parser.add_argument(f"--{name}", **settings)
        parsed = parser.parse_args(arguments)
        if parsed.out is not None and parsed.out.is_dir():
            parser.error(f"--out must be a file, got the folder {parsed.out}")
        parsed.out = parsed.out or (LOOKED_AT if parsed.quick else PUBLISHED) / self._file
        parsed.provenance = self._provenance(sys.argv[1:] if arguments is None else arguments)
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
        """Show the results, and write their page.

        Args:
            options: Those of `parse`.
            grids: Tables, that of the promises first.
            facts: What else is to be known of this run.
            note: What a reader has to know first.
            picture: Name of a picture beside the page, or "".

        Returns:
            The page.
        """
        about, method = (part.strip() for part in _parts(self.doc))
        about = f"{about}\n\n{note}" if note else about
        page = Page(self.title, about, grids, options.provenance | facts, method, picture)
        page.publish(options.out, Console())
        return page

    @property
    def _file(self) -> str:
        return f"{self.name}.md"

    def _provenance(self, arguments: Sequence[str]) -> dict[str, str]:
        command = command_line(f"benchmarks.{self.name}", arguments)
        known = provenance(command, datetime.now(UTC), self.peers)
        if hasattr(os, "getloadavg"):
            known["machine"] += f", load {os.getloadavg()[0]:.1f} at the start"
        return known


def count(text: str) -> int:
    """Read an option that is a whole number.

    Raises:
        argparse.ArgumentTypeError: It is none, or below 1.
    """
    if not (text.isdecimal() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"must be a whole number >= 1, got {text}")
    return int(text)


def _parts(doc: str) -> tuple[str, str]:
    """Return what a docstring says before its examples, and behind them."""
    about, _, rest = doc.partition("\n\nFor example:\n\n")
    return about, rest.partition("\n\n")[2]
