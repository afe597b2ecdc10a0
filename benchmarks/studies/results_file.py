"""The results of a study: statistics over runs, and the CSV file that stores the runs."""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.studies.runs import Point, Run, RunResult
from her_agents.training.run_logs import RunLog
from her_wrappers.data.atomic import replacement

Floats: TypeAlias = npt.NDArray[np.float64]

LEARNING, FINAL = "while learning", "final"
COUNTS = ("episodes", "env_steps", "updates")
POINT = [each.name for each in fields(Point)]


@dataclass(frozen=True)
class RunResults:
    """The results of S runs."""

    all: Sequence[RunResult]  # in the order of the runs of the study

    def of(self, **labels: str | int) -> RunResults:
        """Return the results of the runs that have all given labels."""
        return RunResults([each for each in self.all if labels.items() <= each.run.labels.items()])

    def by(self, label: str) -> dict[Any, RunResults]:
        """Return the results for each value of a label, in order of appearance."""
        values = dict.fromkeys(each.run.labels[label] for each in self.all)
        return {value: self.of(**{label: value}) for value in values}

    def __bool__(self) -> bool:
        return bool(self.all)

    @property
    def success(self) -> Floats:
        """Success rates of the final policies, (S,)."""
        return np.array([each.final.success_rate for each in self.all])

    @property
    def env_steps(self) -> Floats:
        """Environment steps of each run, (S,)."""
        return np.array([each.final.env_steps for each in self.all], float)

    @property
    def processor_seconds(self) -> Floats:
        """Processor seconds of each run, (S,)."""
        return np.array([each.final.processor_seconds for each in self.all])

    def logs(self) -> list[RunLog]:
        """Return the evaluations during each run, without the evaluation of the final policy."""
        logs = []
        for each in self.all:
            points = [(point.env_steps, point.success_rate, point.seconds) for point in each.curve]
            logs.append(RunLog(str(each.run), *np.array(points, float).T))
        return logs

    def mean_over_run(self) -> Floats:
        """Return the mean success rate over the whole length of each run, (S,).

        After a solved run ended early, its last success rate counts for the remaining epochs.
        """
        means = []
        for each, log in zip(self.all, self.logs(), strict=True):
            config = each.run.config
            epochs = np.arange(1, -(-config.steps // config.steps_per_epoch) + 1)
            means.append(log.success_at(epochs * config.steps_per_epoch).mean())
        return np.array(means)


def median(values: Floats) -> float | None:
    """Return the median, or None without values."""
    return float(np.median(values)) if len(values) else None


class ResultsFile:
    """The CSV file of a study: for each run, one row per evaluation, and a last row for the final policy.

    Rows of incomplete runs, and rows that belong to none of ``runs``, are removed from the file. In this
    case, ``<name>.csv.old`` is a copy of the file before the removal.

    Args:
        path: The file; it is created if it does not exist.
        runs: All runs of the study.

    Attributes:
        results: The results in the file, in order of completion.
        removed_rows: Number of removed rows.
    """

    def __init__(self, path: Path, runs: Sequence[Run]) -> None:
        self._path = path
        self._columns = ["run", *runs[0].labels, "seed", "evaluation", *POINT, "ended"]
        text = path.read_text() if path.exists() else ""
        self.results = list(_read(text, self._columns, {run.key: run for run in runs}))
        rows = max(0, len(text.splitlines()) - 1)
        self.removed_rows = rows - sum(len(result.curve) + 1 for result in self.results)
        if self.removed_rows:
            shutil.copyfile(path, path.with_name(path.name + ".old"))
        if self.removed_rows or not text.endswith("\n"):
            with replacement(path) as rewritten:
                rewritten.write((",".join(self._columns) + "\n" + self._text(self.results)).encode())

    def append(self, result: RunResult) -> None:
        """Append a result, and wait until it is on disk."""
        with self._path.open("a") as file:
            file.write(self._text([result]))
            file.flush()
            os.fsync(file.fileno())
        self.results.append(result)

    def _text(self, results: Iterable[RunResult]) -> str:
        file = io.StringIO()
        writer = csv.DictWriter(file, self._columns, lineterminator="\n")
        for result in results:
            run = result.run
            labels = {
                "run": run.key,
                **run.labels,
                "seed": run.config.seed,
                "ended": result.ended.isoformat(),
            }
            for evaluation, points in ((LEARNING, result.curve), (FINAL, [result.final])):
                writer.writerows({**labels, "evaluation": evaluation, **asdict(point)} for point in points)
        return file.getvalue()


def _read(text: str, columns: list[str], runs: Mapping[str, Run]) -> Iterator[RunResult]:
    """Yield the result of each run that is complete in the text of the file, at most once per run."""
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
                yield RunResult(run, tuple(curve), point, datetime.fromisoformat(row["ended"]))
            curve = []


def _point(row: Mapping[str, str]) -> Point | None:
    """Return the evaluation of a row, or None if the row is incomplete."""
    try:
        datetime.fromisoformat(row["ended"])
        return Point(
            **{name: (int if name in COUNTS else float)(row[name]) for name in POINT}  # type: ignore[arg-type] # counts are ints
        )
    except (TypeError, ValueError):
        return None
