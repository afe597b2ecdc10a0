"""Trainings side by side, each in a process with one thread of torch."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass

from examples.reproduce.runs import Outcome, Run, execute
from examples.training.ctrl_c import ctrl_c
from examples.training.parts import use_threads

UPDATE_COSTS = {"dqn": 1.0, "ddpg": 1.7, "td3": 1.7, "sac": 2.7}
"""What an update costs, roughly, in those of DQN."""


@dataclass(frozen=True)
class Failure:
    """A run that came to nothing.

    Attributes:
        run: Which.
        reason: Why.
    """

    run: Run
    reason: str


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def expected_cost(run: Run) -> float:
    """Return what a run may take, in no unit: what matters is who takes longer."""
    config = run.config
    return config.steps * (0.1 + config.updates_per_step * UPDATE_COSTS[config.algo])


def attempt(run: Run) -> Outcome | Failure:
    """Execute a run; what goes wrong with it shall not end the others."""
    try:
        return execute(run)
    except Exception as error:
        return Failure(run, f"{type(error).__name__}: {error}")


def conduct(runs: Sequence[Run], jobs: int, hear: Callable[[Outcome | Failure], None]) -> None:
    """Execute runs, those that may take longest first, so that all processes end at about the same time.

    Args:
        runs: Which.
        jobs: Number of processes; with 1, or one run, all happens in this one, where a debugger sees it.
        hear: Called with each that has ended.

    Raises:
        KeyboardInterrupt: Ctrl-C; runs under way are lost.
        ChildProcessError: One of the processes was killed; so are the others then.
    """
    ordered = sorted(runs, key=expected_cost, reverse=True)
    if min(jobs, len(runs)) <= 1:
        use_threads(1)
        for run in ordered:
            hear(attempt(run))
        return
    with ctrl_c() as interrupted, _processes(min(jobs, len(runs))) as processes:
        with _ignoring_ctrl_c():  # which the processes inherit: it is for us to end them
            waiting: set[Future[Outcome | Failure]] = {processes.submit(attempt, run) for run in ordered}
        while waiting:
            done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in done:
                hear(future.result())
            if interrupted.is_set():
                raise KeyboardInterrupt


@contextmanager
def _processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """Give processes to work in; if the block ends with an error, so does what they are at.

    Raises:
        ChildProcessError: One of them was killed.
    """
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
                "a process of the study was killed, perhaps for want of memory; the same command goes on "
                "where it was, and with fewer --jobs it needs less"
            ) from error
        raise
    finally:
        executor.shutdown()


def _begin_worker() -> None:
    use_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when nobody is left who would hear of it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
