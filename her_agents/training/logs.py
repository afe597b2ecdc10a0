"""Logs of a run: means of measurements over each epoch, and the writers for a CSV file and TensorBoard."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from her_wrappers.data.atomic import replacement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COUNTS = ("epoch", "env_steps", "updates", "seconds")
"""Columns of a log row that contain the progress of the run."""

COLUMNS = (
    *COUNTS,
    "success_rate",
    "success_once",
    "mean_return",
    "mean_length",
    "collected_success",
    "reward_mean",
    "relabeled_success",
    "trivial_share",
    "q_mean",
)
"""First columns of every log, in order; the losses are the last columns. See `docs/training.md`."""

Row = dict[str, float]


def steps_of(row: Mapping[str, float]) -> int:
    """Return the number of steps in a log row: environment steps or, in an offline run, updates."""
    return int(row["env_steps"] or row["updates"])


def evaluated(rows: Sequence[Row]) -> list[Row]:
    """Return the log rows of the epochs that had an evaluation."""
    return [row for row in rows if "success_rate" in row]


def is_solved(history: Sequence[Row]) -> bool:
    """Return whether all episodes of the last two evaluations were successes.

    Args:
        history: A row for each epoch; those with an evaluation have its ``success_rate``.
    """
    return [row["success_rate"] for row in evaluated(history)[-2:]] == [1.0, 1.0]


class Meter:
    """Computes the mean of each named measurement since the last call of `read`."""

    def __init__(self) -> None:
        self._sums: defaultdict[str, Any] = defaultdict(float)
        self._counts: defaultdict[str, Any] = defaultdict(int)

    def add(self, measured: Mapping[str, Any], count: Any = 1) -> None:
        """Add measurements by name; each value is the sum of ``count`` measurements.

        Values and counts are numbers or 0-d tensors. `read` copies tensors from a GPU to the CPU; this method
        does not, since each copy would have to wait for the GPU.
        """
        for name, value in measured.items():
            self._sums[name] += value
            self._counts[name] += count

    def merge(self, other: Meter) -> None:
        """Add all measurements of another meter, which does not change."""
        for name, value in other._sums.items():
            self.add({name: value}, other._counts[name])

    def read(self) -> Row:
        """Return the mean of each measurement since the last call, by name; then clear all measurements."""
        counts = {name: int(count) for name, count in self._counts.items()}
        means = {name: float(total) / counts[name] for name, total in self._sums.items() if counts[name]}
        self._sums.clear()
        self._counts.clear()
        return means


def write_csv(path: Path, rows: Sequence[Mapping[str, float]]) -> None:
    """Write log rows to a CSV file atomically. Values that a row does not have become empty cells."""
    losses = sorted({name for row in rows for name in row} - set(COLUMNS))
    text = io.StringIO()
    writer = csv.DictWriter(text, [*COLUMNS, *losses], restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({
            name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()
        })
    with replacement(path) as file:
        file.write(text.getvalue().encode())


def open_tensorboard(folder: Path, steps: int) -> Any:
    """Return a writer of TensorBoard event files; existing values after step ``steps`` are discarded."""
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise ValueError(
            'tensorboard=True needs the package tensorboard; run: pip install "her-toolkit[agents]", '
            "or pass tensorboard=False (--no-tensorboard)"
        ) from error
    return SummaryWriter(str(folder), purge_step=steps + 1 if steps else None)
