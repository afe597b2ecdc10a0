"""Study: runs to compare, with a figure and a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.result_page import Grid, Page, Requirement, provenance
from benchmarks.studies.plots import save
from benchmarks.studies.results_file import ResultsFile, RunResults
from benchmarks.studies.run_all import Failure, Outcome, run_all, run_on_ray
from her_wrappers.data.atomic import acquire_lock

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from benchmarks.studies.runs import Run

SIMULATORS: dict[str, tuple[str, ...]] = {
    "gymnasium_robotics": ("gymnasium-robotics", "mujoco"),
    "panda_gym": ("panda-gym", "pybullet"),
    "highway_env": ("highway-env",),
}
"""Names of the distributions whose versions a page lists, by the import package of the environments."""


@dataclass(frozen=True)
class Study:
    """Runs to compare, and functions that make the figure and the page from their results."""

    name: str  # of the files, without suffix
    question: str  # title of the page
    about: str  # description of tasks and variants for the page, with the source
    settings: str  # file with the settings, as a path in the repository
    runs: list[Run]
    answer: Callable[[RunResults], str]  # one or two sentences
    draw: Callable[[RunResults], Figure]
    tabulate: Callable[[RunResults], Grid]
    quick: bool  # a short version, which is not judged
    package: str = ""  # package of the environments; "" for bundled ones
    judge: Callable[[RunResults], list[Requirement]] = lambda _: []


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
    """Execute all runs that are missing in ``<name>.csv``; then write ``<name>.svg`` and ``<name>.md``.

    Args:
        study: The study.
        folder: Folder of the three files.
        jobs: Number of processes.
        command: The command line, for the page.
        console: Output for the progress.
        backend: ``"process"`` for ``jobs`` processes on this machine, ``"ray"`` for a Ray cluster.
        address: Address of a Ray cluster; see `run_on_ray`.

    Returns:
        The failed runs, which are missing in figure and page.

    Raises:
        InUseError: Another process executes the same study in the same folder.
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
            save(study.draw(results), folder / f"{study.name}.svg")
            path = folder / f"{study.name}.md"
            is_known = not missing and path.exists()  # then the page is only written again
            facts = _facts_on(path) if is_known else _facts(study, results, command, jobs, failures)
            make_page(study, results, facts).publish(path, console)
    finally:
        lock.release()
    return failures


def make_page(study: Study, results: RunResults, facts: Mapping[str, str]) -> Page:
    """Return the page of a study: answer, figure, table, facts, and method."""
    source = f"[{Path(study.settings).name}](../../{study.settings})"
    return Page(
        study.question,
        study.answer(results),
        [study.tabulate(results)],
        facts,
        f"{study.about}\n\n[How to read it](../reproduce.md#how-to-read-the-figures). Settings: {source}.",
        f"{study.name}.svg",
        [each for each in study.judge(results) if each.is_met is False and not study.quick],
    )


def _facts_on(page: Path) -> dict[str, str]:
    """Return the facts about the measurement that an existing page lists, by name."""
    listed = page.read_text().partition("## How it was measured\n\n")[2].partition("\n\n")[0]
    return dict(fact.split(": ", 1) for fact in listed.removeprefix("- ").split("\n- "))


def _facts(
    study: Study, results: RunResults, command: str, jobs: int, failures: Sequence[Failure]
) -> dict[str, str]:
    seeds = sorted({run.config.seed for run in study.runs})
    wall = timedelta(seconds=round(wall_clock_seconds(results)))
    time = f"{wall} of wall-clock time with --jobs {jobs}"
    if all(each.curve[0].processor_seconds for each in results.all):  # known for runs without a pause
        processor = timedelta(seconds=round(float(results.processor_seconds.sum())))
        time += f"; {processor} of processor time (h:mm:ss)"
    return {
        **provenance(command, max(each.ended for each in results.all), SIMULATORS.get(study.package, ())),
        "runs": f"{len(results.all)} of {len(study.runs)}, seeds {', '.join(map(str, seeds))}; "
        f"evaluations in [{study.name}.csv]({study.name}.csv)",
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
