"""Run all trainings of a study in parallel processes, and show the progress."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING

import torch
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.studies.runs import Run, RunResult, execute
from her_agents.loop import interrupt_flag

if TYPE_CHECKING:
    from rich.console import Console

UPDATE_COSTS = {"dqn": 1.0, "ddpg": 1.7, "td3": 1.7, "sac": 2.7, "tqc": 6.0}
"""Approximate time of an update, relative to DQN."""


@dataclass(frozen=True)
class Failure:
    """A run that raised an error.

    Attributes:
        run: The run.
        reason: Type and message of the error.
    """

    run: Run
    reason: str


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def expected_cost(run: Run) -> float:
    """Return the approximate time of a run, in arbitrary units."""
    config = run.config
    return config.steps * (0.1 + config.updates_per_step * UPDATE_COSTS[config.algo])


def attempt(run: Run) -> RunResult | Failure:
    """Execute a run; return a `Failure` if it raises an error, so that other runs continue."""
    try:
        return execute(run)
    except Exception as error:
        return Failure(run, f"{type(error).__name__}: {error}")


def run_all(runs: Sequence[Run], jobs: int, on_result: Callable[[RunResult | Failure], None]) -> None:
    """Execute runs in parallel processes, with the longest runs first.

    Args:
        runs: The runs.
        jobs: Number of processes. With one job or one run, no other process is used.
        on_result: Called with each result.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; unfinished runs are lost.
        ChildProcessError: A process was killed; the others are terminated.
    """
    ordered = sorted(runs, key=expected_cost, reverse=True)
    if min(jobs, len(runs)) <= 1:
        for run in ordered:
            on_result(attempt(run))
        return
    with interrupt_flag() as interrupted, _processes(min(jobs, len(runs))) as processes:
        with _ignored_interrupts():  # inherited by the processes, so that only this process reacts to Ctrl-C
            waiting: set[Future[RunResult | Failure]] = {processes.submit(attempt, run) for run in ordered}
        while waiting:
            done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in done:
                on_result(future.result())
            if interrupted.is_set():
                raise KeyboardInterrupt


@contextmanager
def _processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """Yield an executor; terminate its processes if the block ends with an error."""
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(count, mp_context=context, initializer=_begin_worker)
    try:
        yield executor
    except BaseException as error:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise ChildProcessError(
                "a process of the study was killed, possibly due to insufficient memory; run the command "
                "again to continue, with fewer --jobs to use less memory"
            ) from error
        raise
    finally:
        executor.shutdown()


def _begin_worker() -> None:
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent ends."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _ignored_interrupts() -> Iterator[None]:
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


class StudyProgress:
    """Context manager that prints a line for each completed run, and shows a progress bar.

    Args:
        name: Name of the study.
        missing: Runs to execute.
        count: Number of all runs of the study.
        console: Output.
    """

    def __init__(self, name: str, missing: Sequence[Run], count: int, console: Console) -> None:
        self._ended, self._count = count - len(missing), count
        self._console = console
        self._bar = Progress(
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

    def __enter__(self) -> StudyProgress:
        if self._ended:
            self._console.print(f"{self._runs()} are complete already.")
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def on_result(self, result: RunResult | Failure) -> None:
        """Print a result, and update the progress bar."""
        self._ended += 1
        self._bar.console.print(_line(result), soft_wrap=True, highlight=False)
        self._bar.update(
            self._task,
            advance=expected_cost(result.run),
            runs=self._runs(),
            left=self._time_left(result.run),
        )

    def _runs(self) -> str:
        return f"{self._ended} of {self._count} runs"

    def _time_left(self, run: Run) -> str:
        """Return the remaining time, extrapolated from the speed so far."""
        task = self._bar.tasks[0]
        done = task.completed + expected_cost(run)
        left = (time.monotonic() - self._started) * ((task.total or 0) - done) / done
        return f"about {timedelta(seconds=round(left))} left"


def _line(result: RunResult | Failure) -> str:
    if isinstance(result, Failure):
        return f"[red]{escape(f'{result.run}: {result.reason}')}[/]"
    final = result.final
    return escape(
        f"{result.run}: success {final.success_rate:.2f} after {final.env_steps:,} steps, "
        f"{final.processor_seconds:.0f} processor seconds"
    )
