"""RunLog: the success rates of a run, read from a folder of ``her train``, a CSV file or TensorBoard logs."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from her_agents.config import read_options
from her_agents.options import AGENT_OPTIONS, agent_options
from her_wrappers.files.arrays import as_corrupt
from her_wrappers.files.text import parse_file

STEPS = ("env_steps", "time/total_timesteps", "steps", "step")
SUCCESS = ("success_rate", "eval/success_rate", "rollout/success_rate")
SECONDS = ("seconds", "time/time_elapsed")
"""Names of the column or TensorBoard tag with the time, of this package and of Stable-Baselines3; the first
name that a log has is used."""

SEED = re.compile(r"(^|[-_])(seed[-_]?)?\d+$")
"""Pattern of the seed at the end of the name of a run, such as -0, _1 and -seed-2."""


@dataclass(frozen=True)
class RunLog:
    """The evaluations of a run.

    Attributes:
        name: Name of the run, for messages.
        steps: Environment steps before each of E evaluations, (E,) float64, increasing; in an offline run,
            updates.
        success_rate: Success rate of each evaluation, (E,) float64 in [0, 1].
        seconds: Wall-clock time of each evaluation since the start [s], (E,) float64; NaN if unknown.
        group: Name of the group, whose runs differ only in their seeds.
        options: Options of the run by name; an option of the agent has a name like ``agent.temperature``.

    Raises:
        ValueError: The run has no evaluation, steps do not increase, or a success rate is outside [0, 1].
    """

    name: str
    steps: np.ndarray
    success_rate: np.ndarray
    seconds: np.ndarray
    group: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.steps):
            raise ValueError(f"{self.name} has no evaluation with a success rate; let the run continue")
        disordered = np.flatnonzero(~(np.diff(self.steps) > 0))
        if disordered.size:
            before, after = self.steps[disordered[0] : disordered[0] + 2]
            raise ValueError(f"steps of {self.name} must increase, got {after:g} after {before:g}")
        wrong = self.success_rate[~((self.success_rate >= 0) & (self.success_rate <= 1))]
        if wrong.size:
            raise ValueError(f"success rates of {self.name} must lie in [0, 1], got {wrong[0]:g}")

    @property
    def is_solved(self) -> bool:
        """Whether all episodes of the last two evaluations were successes; a run may stop after this."""
        return len(self.steps) > 1 and bool((self.success_rate[-2:] == 1).all())

    @property
    def slack(self) -> float:
        """Tolerance of `success_at` [steps], a quarter of the median number of steps between evaluations.

        Evaluations up to this many steps later than requested count too, since epochs differ in length.
        """
        return float(np.median(np.diff(self.steps))) / 4 if len(self.steps) > 1 else 0.0

    def success_at(self, steps: float | np.ndarray) -> np.ndarray:
        """Return the success rate of the last evaluation up to each of ``steps``, with tolerance `slack`.

        After the end of a solved run, this is its last success rate.

        Args:
            steps: Numbers of steps.

        Returns:
            Success rates, with the shape of ``steps``.

        Raises:
            ValueError: The run ended before ``steps`` without being solved, or its first evaluation is later.
        """
        indices = np.searchsorted(self.steps - self.slack, steps, side="right") - 1
        is_late = not self.is_solved and np.max(steps) > self.steps[-1] + self.slack
        if np.min(indices) < 0 or is_late:
            raise ValueError(
                f"{self.name} has evaluations from {self.steps[0]:,.0f} to {self.steps[-1]:,.0f} steps, got "
                f"{np.max(steps) if is_late else np.min(steps):,.0f}; choose other steps, or omit this run"
            )
        rates: np.ndarray = self.success_rate[indices]
        return rates


def read_runs(path: str | os.PathLike[str]) -> list[RunLog]:
    """Read a run, or all runs in a folder.

    Args:
        path: A folder of ``her train``; a folder with TensorBoard logs; a CSV file, such as
            ``progress.csv`` of Stable-Baselines3; or a folder with such runs. ``NAME=PATH`` names the
            group. A CSV file has a column ``env_steps`` and a column ``success_rate``, and may have a column
            ``seconds``, a column ``run`` if it has several runs, and columns with options.

    Returns:
        The runs, sorted by name. Their group is ``NAME`` if it is given. Otherwise it is the path of the
        folder with the runs or, for a single run, the path of this run without the seed at the end.

    Raises:
        CorruptFileError: A log is damaged.
        ImportError: The logs are TensorBoard logs, and tensorboard is not installed.
        OSError: A file cannot be read.
        ValueError: The path contains no run, or a log has no success rate.
    """
    text, group = os.fspath(path), ""
    if "=" in text and not Path(text).exists():
        group, _, text = text.partition("=")
    given = Path(text)
    runs = list(_find_runs(given))
    if not runs:
        what = "has no run in it" if given.exists() else "does not exist"
        raise ValueError(
            f"{given} {what}; pass a folder of her train, a CSV file, or a folder with TensorBoard logs"
        )
    if not group:
        place = given.absolute().with_suffix("") if given.suffix == ".csv" else given.absolute()
        name = SEED.sub("", place.name) if len(runs) == 1 else place.name
        group = str(place.with_name(name) if name else place.parent)
    return [replace(run, group=group) for run in runs]


def _find_runs(path: Path) -> Iterator[RunLog]:
    if path.suffix == ".csv":
        yield from _read_csv(path)
    elif (path / "progress.csv").exists():
        config = path / "config.json"
        yield from _read_csv(path / "progress.csv", _flat(read_options(config)) if config.exists() else {})
    elif path.is_dir() and any(path.glob("events.out.tfevents.*")):
        yield _read_events(path)
    elif path.is_dir():
        for child in sorted(path.iterdir()):
            if child.is_dir():
                yield from _find_runs(child)


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run, including the agent's defaults, in one dict with dotted names."""
    agent = config.get("agent", {})
    if config.get("algo") in AGENT_OPTIONS:
        agent = vars(agent_options(config["algo"], agent))
    nested = {"agent": agent, "env_kwargs": config.get("env_kwargs", {})}
    inner = {f"{table}.{name}": value for table, values in nested.items() for name, value in values.items()}
    return {name: value for name, value in config.items() if name not in nested} | inner


def _read_csv(path: Path, options: Mapping[str, Any] | None = None) -> Iterator[RunLog]:
    rows = parse_file(path, lambda text: list(csv.DictReader(text.splitlines())), "a CSV file")
    columns = [name for name in rows[0] if name] if rows else []
    steps, success = _first(columns, STEPS), _first(columns, SUCCESS)
    seconds = _first(columns, SECONDS) or ""
    if steps is None or success is None:
        raise ValueError(
            f"{path} must have a column of steps ({', '.join(STEPS)}) and of success rates "
            f"({', '.join(SUCCESS)}), got {', '.join(map(str, columns)) or 'an empty file'}"
        )
    by_run: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        if row[success]:  # other rows are not evaluations
            by_run.setdefault(row.get("run") or "", []).append(row)
    for run, logged in by_run.items() or [("", [])]:
        with as_corrupt(f"{path} is damaged"):
            # An offline run has no environment steps, and its progress is the number of updates.
            values = [
                (float(row[steps]) or float(row.get("updates") or 0), row[success], row.get(seconds) or "nan")
                for row in logged
            ]
            points = np.array(values, float).reshape(-1, 3)
        constant = {name: logged[0][name] for name in columns if len({row[name] for row in logged}) == 1}
        yield _make(f"{path}, run {run}" if run else str(path), points, options or constant)


def _read_events(path: Path) -> RunLog:
    """Read the logs of one run of TensorBoard."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415 - slow

    with as_corrupt(f"{path} is damaged"):
        logs = EventAccumulator(str(path), {"scalars": 0}).Reload()  # 0: all values
        tags = logs.Tags()["scalars"]
        tag = _first(tags, SUCCESS)
        if tag is not None:
            start = min(logs.Scalars(each)[0].wall_time for each in tags)
            events = [(each.step, each.value, each.wall_time - start) for each in logs.Scalars(tag)]
    if tag is None:
        raise ValueError(
            f"{path} has no success rate ({', '.join(SUCCESS)}), only {', '.join(tags) or 'no scalars'}; "
            "the infos of the environment need is_success"
        )
    return _make(str(path), np.array(events, float).reshape(-1, 3), {})


def _first(names: Sequence[str], known: Sequence[str]) -> str | None:
    return next((name for name in known if name in names), None)


def _make(name: str, points: np.ndarray, options: Mapping[str, Any]) -> RunLog:
    """Return a run from (E, 3) points: steps, success rate, seconds; the last row of equal steps is used."""
    last = {step: row for step, *row in points[np.argsort(points[:, 0], kind="stable")].tolist()}
    rates, seconds = np.array(list(last.values())).reshape(-1, 2).T
    return RunLog(name, np.array(list(last)), rates, seconds, options=options)
