"""RunLog: success rates of a run, read from a run folder of ``her train``, a CSV file or TensorBoard logs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from her_agents.algorithms.options import AGENT_OPTIONS, agent_options
from her_agents.training.config import read_options
from her_agents.training.logs import is_solved
from her_wrappers.data.arrays import as_corrupt
from her_wrappers.data.text import read_rows

STEPS = ("env_steps", "time/total_timesteps", "steps", "step")
SUCCESS = ("success_rate", "eval/success_rate", "rollout/success_rate")
SECONDS = ("seconds", "time/time_elapsed")
"""Names of columns or TensorBoard tags with steps, success rates and wall-clock times, as written by this
package and Stable-Baselines3. The first name that a log contains is used."""

SEED = re.compile(r"(^|[-_])(seed[-_]?)?\d+$")
"""Pattern of the seed at the end of the name of a run, such as -0, _1 and -seed-2."""


@dataclass(frozen=True)
class RunLog:
    """The evaluations of a run.

    Attributes:
        name: Name of the run, for messages.
        steps: Number of environment steps before each of E evaluations, (E,) float64, increasing. In an
            offline run, the number of updates.
        success_rate: Success rate of each evaluation, (E,) float64 in [0, 1].
        seconds: Wall-clock time of each evaluation since the start [s], (E,) float64; NaN if unknown.
        group: Name of the group of this run. `compare` treats the runs of a group as repetitions.
        options: Options of the run by name; options of the agent have names such as ``agent.temperature``.

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
            raise ValueError(f"{self.name} has no evaluation with a success rate; train it longer")
        disordered = np.flatnonzero(~(np.diff(self.steps) > 0))
        if disordered.size:
            before, after = self.steps[disordered[0] : disordered[0] + 2]
            got = f"got {after:g} after {before:g}; sort the evaluations, and remove repeated ones"
            raise ValueError(f"steps of {self.name} must increase, {got}")
        wrong = self.success_rate[~((self.success_rate >= 0) & (self.success_rate <= 1))]
        if wrong.size:
            raise ValueError(f"success rates of {self.name} must lie in [0, 1], got {wrong[0]:g}")

    @property
    def is_solved(self) -> bool:
        """Whether all episodes of the last two evaluations were successes; ``her train`` stops such a run."""
        return is_solved([{"success_rate": rate} for rate in self.success_rate])

    @property
    def slack(self) -> float:
        """Tolerance of `success_at` [steps]: a quarter of the median number of steps between evaluations.

        Epochs differ in length, so the evaluation for a requested step can come later than this step.
        `success_at` accepts evaluations that are late by up to this tolerance.
        """
        return float(np.median(np.diff(self.steps))) / 4 if len(self.steps) > 1 else 0.0

    def success_at(self, steps: float | np.ndarray) -> np.ndarray:
        """Return the success rates, (S,) or (), of the last evaluations up to the given steps + `slack`.

        After the end of a solved run, its last success rate is returned.

        Raises:
            ValueError: ``steps`` is before the first evaluation, or after the end of an unsolved run.
        """
        indices = np.searchsorted(self.steps - self.slack, steps, side="right") - 1
        is_late = not self.is_solved and np.max(steps) > self.steps[-1] + self.slack
        if np.min(indices) < 0 or is_late:
            raise ValueError(
                f"{self.name} has no success rate after {np.max(steps) if is_late else np.min(steps):,.0f} "
                f"steps: its first evaluation is after {self.steps[0]:,.0f} steps, its last evaluation after "
                f"{self.steps[-1]:,.0f}; choose other steps (at= of compare()), or omit this run"
            )
        rates: np.ndarray = self.success_rate[indices]
        return rates


def read_runs(path: str | os.PathLike[str]) -> list[RunLog]:
    """Read a run, or all runs in a folder.

    Args:
        path: A run folder of ``her train``; a folder with TensorBoard logs; a CSV file; or a folder of such
            folders. ``NAME=PATH`` reads PATH, and NAME is then the group of the runs. A CSV file needs the
            columns ``env_steps`` and ``success_rate``, or those of Stable-Baselines3's ``progress.csv``.
            Optional columns are ``seconds``, ``run`` (the name of the run, if the file has several), and one
            column for each known option of the runs.

    Returns:
        The runs, sorted by path. Without NAME, their group is the absolute path; if there is only one run, a
        seed at the end of the path, such as ``-0``, is removed from the group.

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
        what = "contains no run" if given.exists() else "does not exist"
        raise ValueError(
            f"{given} {what}; pass a run folder of `her train`, a CSV file, or a folder with TensorBoard logs"
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
    rows = read_rows(path)
    columns = list(rows[0]) if rows else []
    steps, success = _first(columns, STEPS), _first(columns, SUCCESS)
    seconds = _first(columns, SECONDS) or ""
    if steps is None or success is None:
        missing, names = ("steps", STEPS) if steps is None else ("success rates", SUCCESS)
        raise ValueError(
            f"{path} must have a column of {missing} with the name {' or '.join(map(repr, names))}, got the "
            f"columns: {', '.join(map(repr, columns)) or 'none, since the file has no rows'}"
        )
    by_run: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        if row[success]:  # other rows are not evaluations
            by_run.setdefault(row.get("run") or "", []).append(row)
    for run, logged in by_run.items() or [("", [])]:
        with as_corrupt(f"{path} is damaged"):
            # An offline run has no environment steps; its progress is the number of updates.
            values = [
                (float(row[steps]) or float(row.get("updates") or 0), row[success], row.get(seconds) or "nan")
                for row in logged
            ]
            points = np.array(values, float).reshape(-1, 3)
        constant = {name: logged[0][name] for name in columns if len({row[name] for row in logged}) == 1}
        yield _make(f"{path}, run {run}" if run else str(path), points, options or constant)


def _read_events(path: Path) -> RunLog:
    """Read the TensorBoard logs of one run."""
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
            f"{path} must have a scalar {' or '.join(map(repr, SUCCESS))}, got the scalars: "
            f"{', '.join(map(repr, tags)) or 'none'}; add 'is_success' to the infos of the environment, then "
            "train again"
        )
    return _make(str(path), np.array(events, float).reshape(-1, 3), {})


def _first(names: Sequence[str], known: Sequence[str]) -> str | None:
    return next((name for name in known if name in names), None)


def _make(name: str, points: np.ndarray, options: Mapping[str, Any]) -> RunLog:
    """Return a run from (E, 3) points: steps, success rate and seconds of each evaluation."""
    # Of several points with equal steps, the last one is kept.
    last = {step: row for step, *row in points[np.argsort(points[:, 0], kind="stable")].tolist()}
    rates, seconds = np.array(list(last.values())).reshape(-1, 2).T
    return RunLog(name, np.array(list(last)), rates, seconds, options=options)
