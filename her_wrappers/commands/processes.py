"""Training runs in parallel processes, for ``her train --seeds``."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from her_agents.training.config import Config
from her_agents.training.loop import Result, epoch_line, interrupt_flag, train


def train_in_processes(
    runs: Sequence[tuple[Config, Path]], jobs: int, options: Mapping[str, Any]
) -> Iterator[tuple[Result, Path]]:
    """Train in up to ``jobs`` processes; for each run, yield its result (``agent`` is None) and its folder.

    After Ctrl-C, the current runs are saved and stopped, and no further runs begin.
    """
    waiting, running = list(runs), dict[Future[Result], Path]()
    context = multiprocessing.get_context("spawn")
    with interrupt_flag() as interrupted, ProcessPoolExecutor(jobs, mp_context=context) as pool:
        while running or (waiting and not interrupted.is_set()):
            while waiting and len(running) < jobs and not interrupted.is_set():
                config, folder = waiting.pop(0)
                # The new process inherits that SIGINT is ignored; `train` handles SIGINT during a run.
                previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
                running[pool.submit(_train, config, folder, options)] = folder
                signal.signal(signal.SIGINT, previous)
            for future in wait(running, timeout=0.2, return_when=FIRST_COMPLETED).done:
                yield future.result(), running.pop(future)


def _train(config: Config, folder: Path, options: Mapping[str, Any]) -> Result:
    def show(row: Mapping[str, float]) -> None:
        print(f"seed {config.seed} | {epoch_line(row)}", flush=True)

    result = train(config, folder=folder, on_epoch=show, **options)
    return Result(None, result.history, result.interrupted)  # type: ignore[arg-type] # agents may be large
