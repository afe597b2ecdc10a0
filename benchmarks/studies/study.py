"""Study: trainings to compare, with a figure and a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.result_page import Grid, Page, Requirement, provenance, requirement_grid
from benchmarks.studies.plots import save
from benchmarks.studies.results_file import ResultsFile, RunResults
from benchmarks.studies.run_all import Failure, Outcome, run_all, run_on_ray
from benchmarks.studies.runs import FINAL_EPISODES
from her_agents.config import Config
from her_wrappers.files.atomic import acquire_lock

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from benchmarks.studies.runs import Run

SIMULATORS: dict[str, tuple[str, ...]] = {
    "gymnasium_robotics": ("gymnasium-robotics", "mujoco"),
    "panda_gym": ("panda-gym", "pybullet"),
    "highway_env": ("highway-env",),
}
"""Distributions whose versions a page shows, by the package of the environments."""

RULES = f"""All variants are trained and measured in the same way. A training ends when all episodes of two
consecutive evaluations were successes, or after its last step. Success rates are those of the final greedy
policy in {FINAL_EPISODES} separate episodes, not those of the best evaluation. Numbers are medians over the
seeds, with the lowest and the highest value in brackets; figures show this range as a shaded area. The curve
of a training that ended before others continues with its last value."""


@dataclass(frozen=True)
class Study:
    """Trainings to compare.

    Attributes:
        name: Name of the files, without suffix.
        title: Title of the page.
        about: Description for the page, with the source.
        runs: All trainings.
        draw: Function of the results; returns the figure.
        tabulate: Function of the results; returns the table.
        judge: Function of the results; returns the requirements with measurements.
        quick: Whether this is a short version, which is not judged.
        package: Package of the environments; "" for bundled ones.
    """

    name: str
    title: str
    about: str
    runs: list[Run]
    draw: Callable[[RunResults], Figure]
    tabulate: Callable[[RunResults], Grid]
    judge: Callable[[RunResults], list[Requirement]]
    quick: bool
    package: str = ""


def reproduce(
    study: Study,
    folder: Path,
    jobs: int,
    command: str,
    console: Console,
    *,
    backend: str = "process",
    address: str | None = None,
) -> list[Failure]:
    """Execute all runs that are missing in the CSV file; then write the figure and the page.

    Args:
        study: The study.
        folder: Folder of ``<name>.csv``, ``.png`` and ``.md``.
        jobs: Number of processes.
        command: The command line, for the page.
        console: Output for the progress.
        backend: ``"process"`` for ``jobs`` processes on this machine, ``"ray"`` for a Ray cluster.
        address: Address of a Ray cluster; see `run_on_ray`.

    Returns:
        The failed runs, which figure and page do not contain.

    Raises:
        ChildProcessError: A process was killed.
        ConnectionError: No Ray cluster answers at ``address``.
        ImportError: ``backend`` is ``"ray"``, and Ray is not installed.
        InUseError: Another process executes the same study in the same folder.
        KeyboardInterrupt: Ctrl-C was pressed.
        OSError: A file cannot be written.
        ValueError: The backend does not exist.
    """
    if backend not in {"process", "ray"}:
        raise ValueError(f"backend must be 'process' or 'ray', got {backend!r}")
    execute_all = run_all if backend == "process" else partial(run_on_ray, address=address)
    folder.mkdir(parents=True, exist_ok=True)
    lock = acquire_lock(folder / f"{study.name}.lock", f"the study {study.name} in {folder}")
    failures: list[Failure] = []
    try:
        file = ResultsFile(folder / f"{study.name}.csv", study.runs)
        if file.removed_rows:
            console.print(
                f"{file.removed_rows} rows of other settings or of incomplete runs were removed from "
                f"{study.name}.csv; {study.name}.csv.old contains them.",
                soft_wrap=True,
            )
        existing = {result.run.key for result in file.results}
        missing = [run for run in study.runs if run.key not in existing]
        if existing:
            console.print(f"{len(existing)} of {len(study.runs)} runs are complete already.")

        def on_result(result: Outcome) -> None:
            if isinstance(result, Failure):
                failures.append(result)
            else:
                file.append(result)
            progress = f"{len(file.results) + len(failures)} of {len(study.runs)} runs"
            console.print(f"{progress}; {result}", soft_wrap=True, highlight=False, markup=False)

        execute_all(missing, jobs, on_result)
        if file.results:
            by_key = {result.run.key: result for result in file.results}
            results = RunResults([by_key[run.key] for run in study.runs if run.key in by_key])
            save(study.draw(results), folder / f"{study.name}.png")
            page = make_page(study, results, _facts(study, results, command, jobs, failures))
            page.publish(folder / f"{study.name}.md", console)
    finally:
        lock.release()
    return failures


def make_page(study: Study, results: RunResults, facts: Mapping[str, str]) -> Page:
    """Return the page of a study: requirements, table, figure, facts, and settings."""
    requirements = study.judge(results)
    grids = [requirement_grid(requirements, quick=study.quick)] if requirements else []
    return Page(
        study.title,
        study.about,
        [*grids, study.tabulate(results)],
        facts,
        f"{RULES}\n\n{settings_of(study.runs)}",
        f"{study.name}.png",
    )


def _facts(
    study: Study, results: RunResults, command: str, jobs: int, failures: Sequence[Failure]
) -> dict[str, str]:
    seeds = sorted({run.config.seed for run in study.runs})
    wall = timedelta(seconds=round(wall_clock_seconds(results)))
    time = f"{wall} of wall-clock time with --jobs {jobs}"
    if all(each.curve[0].processor_seconds for each in results.all):  # known for trainings without a pause
        processor = timedelta(seconds=round(float(results.processor_seconds.sum())))
        time += f"; {processor} of processor time (h:mm:ss)"
    return {
        **provenance(command, max(each.ended for each in results.all), SIMULATORS.get(study.package, ())),
        "runs": f"{len(results.all)} of {len(study.runs)}, seeds {', '.join(map(str, seeds))}; "
        f"each evaluation is a row of [{study.name}.csv]({study.name}.csv)",
        "time": time,
        **{f"**failed**: {failure.run}": failure.reason for failure in failures},
    }


def wall_clock_seconds(results: RunResults) -> float:
    """Return the time during which at least one run was executed, without pauses of the study."""
    spans = sorted((each.ended - timedelta(seconds=each.final.seconds), each.ended) for each in results.all)
    total, until = timedelta(), datetime.min.replace(tzinfo=spans[0][0].tzinfo)
    for start, end in spans:
        total += max(timedelta(), end - max(start, until))
        until = max(until, end)
    return total.total_seconds()


def settings_of(runs: Sequence[Run]) -> str:
    """Return a section with all options that differ from the defaults of `Config`."""
    options = [_flat(run.config.as_dict()) for run in runs]
    names = [name for name in dict.fromkeys(chain.from_iterable(options)) if name != "seed"]
    values = {name: [each.get(name) for each in options] for name in names}
    common = [name for name in names if all(value == values[name][0] for value in values[name])]
    differing = [name for name in names if name not in common]
    defaults = {each.name: each.default for each in fields(Config) if each.default is not MISSING}
    listed = ", ".join(
        f"`{name} = {json.dumps(values[name][0])}`"
        for name in common
        if name not in defaults or values[name][0] != defaults[name]
    )
    rows = dict.fromkeys(
        (
            *map(str, run.labels.values()),
            *(json.dumps(each[name]) if name in each else "default" for name in differing),
        )
        for run, each in zip(runs, options, strict=True)
    )
    table = Grid("Settings", [*runs[0].labels, *differing], [list(row) for row in rows])
    caption = "All options that differ from the defaults of `her_agents.Config`."
    shared = f"In all runs: {listed}.\n\n" if listed else ""
    return f"## {table.title}\n\n{caption}\n\n{shared}{table.cells()}"


def _flat(options: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the options without nesting; names of nested options are ``table.name``."""
    flat: dict[str, Any] = {}
    for name, value in options.items():
        nested = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{name}.") if nested else {prefix + name: value}
    return flat
