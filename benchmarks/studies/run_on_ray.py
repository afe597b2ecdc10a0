"""Run the trainings of a study in a Ray cluster, one task each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.studies.run_all import attempt, expected_cost
from her_agents.loop import interrupt_flag
from her_wrappers.collecting.ray_backend import import_ray, init_ray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.studies.run_all import Failure
    from benchmarks.studies.runs import Run, RunResult

MAX_RETRIES = 20
"""Largest number of times that Ray restarts a run after its worker or node was lost."""


def run_on_ray(
    runs: Sequence[Run],
    on_result: Callable[[RunResult | Failure], None],
    *,
    num_cpus: int,
    address: str | None = None,
) -> None:
    """Execute runs in a Ray cluster, with the longest runs first. Each run takes one logical CPU.

    A run whose worker or node is lost is executed again, at most `MAX_RETRIES` times.

    Args:
        runs: The runs.
        on_result: Called with each result.
        num_cpus: Smallest number of logical CPUs, if this function starts Ray on this machine.
        address: Address of a Ray cluster. None uses the Ray that the program has initialized, or starts Ray
            on this machine.

    Raises:
        ConnectionError: No Ray cluster answers at ``address``.
        ImportError: Ray is not installed.
        KeyboardInterrupt: Ctrl-C was pressed; unfinished runs are lost.
    """
    ray, is_owner = import_ray(), init_ray(address, num_cpus)
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
