"""What is shown while a study runs: a line for each run that has ended, and a bar for all."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from examples.reproduce.pool import Failure, expected_cost

if TYPE_CHECKING:
    from rich.console import Console

    from examples.reproduce.runs import Outcome, Run


class Progress:
    """A display, to be entered while runs go on.

    Args:
        name: Of the study.
        missing: Runs to wait for.
        count: Runs of the study; those that are not missing are there already.
        console: Where to show it.
    """

    def __init__(self, name: str, missing: Sequence[Run], count: int, console: Console) -> None:
        self._ended, self._count = count - len(missing), count
        self._console = console
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[runs]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
        )
        self._started = time.monotonic()
        self._task = self._bar.add_task(
            name, total=sum(map(expected_cost, missing)), runs=self._runs(), left=""
        )

    def __enter__(self) -> Progress:
        if self._ended:
            self._console.print(f"{self._runs()} are there already.")
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def hear(self, heard: Outcome | Failure) -> None:
        """Show how a run has ended."""
        self._ended += 1
        self._bar.console.print(_line(heard), soft_wrap=True, highlight=False)
        self._bar.update(
            self._task, advance=expected_cost(heard.run), runs=self._runs(), left=self._time_left(heard.run)
        )

    def _runs(self) -> str:
        return f"{self._ended} of {self._count} runs"

    def _time_left(self, run: Run) -> str:
        """Assume that what is left goes as fast as what is done."""
        task = self._bar.tasks[0]
        done = task.completed + expected_cost(run)
        left = (time.monotonic() - self._started) * ((task.total or 0) - done) / done
        return f"about {timedelta(seconds=round(left))} left"


def _line(heard: Outcome | Failure) -> str:
    if isinstance(heard, Failure):
        return f"[red]{escape(f'{heard.run}: {heard.reason}')}[/]"
    final = heard.final
    return escape(
        f"{heard.run}: success {final.success_rate:.2f} after {final.env_steps:,} steps, "
        f"{final.processor_seconds:.0f} processor seconds"
    )
