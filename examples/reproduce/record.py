"""Record: the CSV file of a study, which is also what it goes on from."""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from examples.reproduce.runs import Outcome, Point, Run
from her_wrappers.files.atomic import replacement

if TYPE_CHECKING:
    from collections.abc import Iterator

LEARNING, FINAL = "while learning", "final"
COUNTS = ("episodes", "env_steps", "updates")


class Record:
    """The outcomes of a study in a file: a row for each evaluation, the final one last.

    Rows that belong to no run of the study as it is configured now, or to one that was not written whole, are
    left out; the file as it was with them stays beside it, as ``<name>.csv.old``.

    Args:
        path: The file; made if it is missing.
        runs: All of the study.

    Attributes:
        outcomes: Those that are there, in the order in which they came.
        left_out: Number of rows that were left out.
    """

    def __init__(self, path: Path, runs: Sequence[Run]) -> None:
        self._path = path
        self._columns = ["run", *runs[0].labels, "seed", "evaluation", *_names(Point), "ended"]
        text = path.read_text() if path.exists() else ""
        self.outcomes = list(_read(text, self._columns, {run.key: run for run in runs}))
        rows = max(0, len(text.splitlines()) - 1)
        self.left_out = rows - sum(len(outcome.curve) + 1 for outcome in self.outcomes)
        if self.left_out or not text.endswith("\n"):
            self._write_anew()

    def append(self, outcome: Outcome) -> None:
        """Add an outcome, on disk when this returns."""
        with self._path.open("a") as file:
            file.write(self._text([outcome]))
            file.flush()
            os.fsync(file.fileno())
        self.outcomes.append(outcome)

    def _write_anew(self) -> None:
        if self.left_out:
            shutil.copyfile(self._path, self._path.with_name(self._path.name + ".old"))
        with replacement(self._path) as file:
            file.write((",".join(self._columns) + "\n" + self._text(self.outcomes)).encode())

    def _text(self, outcomes: Iterable[Outcome]) -> str:
        file = io.StringIO()
        writer = csv.DictWriter(file, self._columns, lineterminator="\n")
        for outcome in outcomes:
            writer.writerows(_rows(outcome))
        return file.getvalue()


def _names(kind: type) -> list[str]:
    return [each.name for each in fields(kind)]


def _rows(outcome: Outcome) -> Iterator[dict[str, object]]:
    run = outcome.run
    labels = {"run": run.key, **run.labels, "seed": run.config.seed}
    for evaluation, points in ((LEARNING, outcome.curve), (FINAL, [outcome.final])):
        for point in points:
            yield {**labels, "evaluation": evaluation, **asdict(point), "ended": outcome.ended.isoformat()}


def _read(text: str, columns: list[str], runs: Mapping[str, Run]) -> Iterator[Outcome]:
    """Yield what is whole and belongs to the runs, each at most once."""
    lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
    if not lines or lines[0].rstrip("\n").split(",") != columns:
        return
    awaited, curve = dict(runs), list[Point]()
    for row in csv.DictReader(lines):
        point = _point(row)
        if point is None:
            curve = []
        elif row["evaluation"] == LEARNING:
            curve.append(point)
        else:
            run = awaited.pop(row["run"], None)
            if run is not None:
                yield Outcome(run, tuple(curve), point, datetime.fromisoformat(row["ended"]))
            curve = []


def _point(row: Mapping[str, str]) -> Point | None:
    """Read a row, or return None where it was not written whole."""
    try:
        datetime.fromisoformat(row["ended"])
        return Point(
            **{name: (int if name in COUNTS else float)(row[name]) for name in _names(Point)}  # type: ignore[arg-type] # counts are ints
        )
    except (TypeError, ValueError):
        return None
