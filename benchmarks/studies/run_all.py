"""Execute all runs of a study in parallel processes or in a Ray cluster."""

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
from typing import TypeAlias

import torch

from benchmarks.studies.runs import Run, RunResult, execute
from her_agents.training.loop import interrupt_flag
from her_wrappers.collecting.ray_backend import init_ray

UPDATE_COSTS = {"dqn": 1.0, "ddpg": 1.7, "td3": 1.7, "sac": 2.7, "tqc": 6.0, "iql": 2.0}
"""Approximate time of one update of each algorithm, relative to DQN."""

MAX_RETRIES = 20
"""Largest number of times that Ray restarts a run after its worker or node was lost."""


@dataclass(frozen=True)
class Failure:
    """A run that raised an error."""

    run: Run
    reason: str  # type and message of the error

    def __str__(self) -> str:
        return f"{self.run}: {self.reason}"


Outcome: TypeAlias = RunResult | Failure


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def expected_cost(run: Run) -> float:
    """Return the approximate time of a run, in arbitrary units."""
    config = run.config
    return config.steps * (0.1 + config.updates_per_step * UPDATE_COSTS[config.algo])


def attempt(run: Run) -> Outcome:
    """Execute a run; return a `Failure` if it raises an error, so that other runs continue."""
    try:
        return execute(run)
    except Exception as error:
        return Failure(run, f"{type(error).__name__}: {error}")


def run_all(runs: Sequence[Run], jobs: int, on_result: Callable[[Outcome], None]) -> None:
    """Execute runs in parallel processes, with the longest runs first; call ``on_result`` with each result.

    With one job or one run, the runs are executed in this process. After Ctrl-C, unfinished runs are lost.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
        ChildProcessError: A process was killed; all other processes are then terminated.
    """
    ordered = sorted(runs, key=expected_cost, reverse=True)
    if min(jobs, len(runs)) <= 1:
        for run in ordered:
            on_result(attempt(run))
        return
    with interrupt_flag() as interrupted, _processes(min(jobs, len(runs))) as processes:
        # The processes inherit that interrupts are ignored, so that only this process reacts to Ctrl-C.
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        waiting: set[Future[Outcome]] = {processes.submit(attempt, run) for run in ordered}
        signal.signal(signal.SIGINT, previous)
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
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def run_on_ray(
    runs: Sequence[Run], jobs: int, on_result: Callable[[Outcome], None], *, address: str | None = None
) -> None:
    """Execute runs in a Ray cluster, with the longest runs first. Each run takes one logical CPU.

    A run whose worker or node is lost is executed again, at most `MAX_RETRIES` times. Without ``address``,
    the Ray instance that this program has already started is used; if there is none, the cluster of the
    environment variable ``RAY_ADDRESS`` or a new Ray instance on this machine, with at least ``jobs`` logical
    CPUs.

    Raises:
        ConnectionError: No Ray cluster answers at ``address``.
        ImportError: Ray is not installed.
        KeyboardInterrupt: Ctrl-C was pressed; unfinished runs are lost.
    """
    ray, is_owner = init_ray(address, jobs)
    try:
        task = ray.remote(num_cpus=1, max_retries=MAX_RETRIES, scheduling_strategy="SPREAD")(attempt)
        waiting = [task.remote(run) for run in sorted(runs, key=expected_cost, reverse=True)]
        with interrupt_flag() as interrupted:
            while waiting:
                done, waiting = ray.wait(waiting, timeout=0.2)
                for result in done:
                    on_result(ray.get(result))
                if interrupted.is_set():
                    for result in waiting:
                        ray.cancel(result, force=True)
                    raise KeyboardInterrupt
    finally:
        if is_owner:
            ray.shutdown()
