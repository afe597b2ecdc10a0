"""Study: trainings to compare, and how their outcomes are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from examples.reproduce.outcomes import Outcomes
from examples.reproduce.page import Facts, make_page
from examples.reproduce.plots import save
from examples.reproduce.pool import Failure, conduct
from examples.reproduce.progress import Progress
from examples.reproduce.record import Record
from examples.results import Claim, Grid
from her_wrappers.files.atomic import Claim as Lock

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from examples.reproduce.runs import Outcome, Run


@dataclass(frozen=True)
class Study:
    """Trainings to compare.

    Attributes:
        name: Of its files.
        title: Of its page.
        about: What is shown, and after which paper.
        runs: All trainings.
        draw: Makes the figure.
        tabulate: Makes the table.
        judge: Sets promises beside what was measured.
        quick: Whether this is a quick look, for which nothing is promised.
    """

    name: str
    title: str
    about: str
    runs: list[Run]
    draw: Callable[[Outcomes], Figure]
    tabulate: Callable[[Outcomes], Grid]
    judge: Callable[[Outcomes], list[Claim]]
    quick: bool


def reproduce(study: Study, folder: Path, jobs: int, command: str, console: Console) -> list[Failure]:
    """Train what is not in the CSV file yet; then write the figure and the page.

    Args:
        study: What to do.
        folder: Where ``<name>.csv``, ``.png`` and ``.md`` are or go.
        jobs: Processes to train in.
        command: What the user typed, for the page.
        console: To tell how it goes.

    Returns:
        Runs that came to nothing, and are missing from figure and page.

    Raises:
        ChildProcessError: A process was killed.
        InUseError: Another does the same study in the same folder.
        KeyboardInterrupt: Ctrl-C.
        OSError: The files cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = Lock(folder / f"{study.name}.lock", f"the study {study.name} in {folder}")
    try:
        record = Record(folder / f"{study.name}.csv", study.runs)
        failures = _train(study, record, jobs, console)
        if record.outcomes:
            _show(study, record, folder, Facts(command, jobs, failures), console)
    finally:
        lock.release()
    return failures


def _train(study: Study, record: Record, jobs: int, console: Console) -> list[Failure]:
    if record.left_out:
        console.print(
            f"{record.left_out} rows of other settings, or of trainings that are not whole, are no longer in "
            f"{study.name}.csv; {study.name}.csv.old has them.",
            soft_wrap=True,
        )
    there = {outcome.run.key for outcome in record.outcomes}
    missing = [run for run in study.runs if run.key not in there]
    failures: list[Failure] = []
    with Progress(study.name, missing, len(study.runs), console) as progress:

        def hear(heard: Outcome | Failure) -> None:
            if isinstance(heard, Failure):
                failures.append(heard)
            else:
                record.append(heard)
            progress.hear(heard)

        conduct(missing, jobs, hear)
    return failures


def _show(study: Study, record: Record, folder: Path, facts: Facts, console: Console) -> None:
    by_key = {outcome.run.key: outcome for outcome in record.outcomes}
    outcomes = Outcomes([by_key[run.key] for run in study.runs if run.key in by_key])
    save(study.draw(outcomes), folder / f"{study.name}.png")
    make_page(study, outcomes, facts).publish(folder / f"{study.name}.md", console)
