"""Benchmark: the command-line options and the result pages that all benchmarks in this folder share."""

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

PUBLISHED, QUICK_RESULTS = Path("docs/results"), Path("runs/benchmarks")


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
        about, method = (part.strip() for part in _split_doc(self.doc))
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
    """Read an option that is an integer of at least 1.

    Raises:
        argparse.ArgumentTypeError: ``text`` is not an integer of at least 1.
    """
    if not (text.isdecimal() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text}")
    return int(text)


def _split_doc(doc: str) -> tuple[str, str]:
    """Return the parts of a docstring before and after its examples."""
    about, _, rest = doc.partition("\n\nFor example:\n\n")
    return about, rest.partition("\n\n")[2]
