"""The runs of ``her train``: one after the other with a progress bar, or several in parallel processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from her_agents.training.config import Config
from her_agents.training.logs import evaluated, is_solved
from her_agents.training.loop import Result, epoch_line, interrupt_flag, train
from her_agents.training.run import Run
from her_wrappers.commands import terminal
from her_wrappers.diagnosis import diagnose
from her_wrappers.diagnosis.targets import options_of_config, read_target
from her_wrappers.support.error_texts import describe_user_error

FIRST_DIAGNOSIS = 10
"""A run without any success is diagnosed after this many evaluations; then after 2, 4, ... times as many."""


def train_here(
    runs: Sequence[tuple[Config, Path]], options: Mapping[str, Any]
) -> Iterator[tuple[Result, Path]]:
    """Train one run after the other; yield the result and the folder of each. End after Ctrl-C."""
    for config, folder in runs:
        result = _train_with_progress(config, folder, options)
        yield result, folder
        if result.interrupted:
            return


def _train_with_progress(config: Config, folder: Path, options: Mapping[str, Any]) -> Result:
    """Train with a progress bar and a line per epoch; print diagnoses until an evaluation has a success."""
    console = Console()
    steps_per_s = () if config.offline else (TextColumn("{task.fields[steps_per_s]:,.0f} steps/s"),)
    threads = "" if config.threads == 1 else f" with {config.threads} threads"
    lines = [f"{config.algo}{threads} for at most {config.steps:,} steps; Ctrl-C saves and stops"]
    if config.on_device:
        lines.append(
            f"{config.num_envs:,} environments on {config.device}, "
            f"{config.updates_per_step * config.num_envs:.3g} updates after each step of all of them "
            f"({config.updates_per_step:.3g} per step of one)"
        )
    console.print("\n".join(lines), highlight=False, soft_wrap=True)
    with Progress(
        TextColumn("{task.description:<11}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("success {task.fields[success]:.2f}"),
        *steps_per_s,
        TextColumn("{task.fields[updates_per_s]:,.0f} updates/s"),
        TimeRemainingColumn(),
        console=console,
        disable=config.real,  # a person may type below the lines
    ) as progress:
        task = progress.add_task(config.algo, total=config.steps, success=0.0, steps_per_s=0, updates_per_s=0)
        due = FIRST_DIAGNOSIS

        def show(run: Run) -> None:
            nonlocal due
            counts, rates = run.counts, [row["success_rate"] for row in evaluated(run.history)]
            progress.update(
                task,
                completed=counts.steps,
                success=rates[-1] if rates else 0.0,
                steps_per_s=counts.env_steps / counts.seconds,
                updates_per_s=counts.updates / counts.seconds,
            )
            if len(rates) >= due and not any(rates) and not config.on_device:  # `diagnose` needs episodes
                due = 2 * len(rates)
                target = read_target(run.buffer).with_options(**options_of_config(run.config.as_dict()))
                report = diagnose(target, history=run.history)
                print(f"None of {len(run.history)} evaluations had a success. More: `her doctor {folder}`.")
                terminal.print_report(replace(report, findings=report.findings[:3], not_exercised=()))

        return train(
            config,
            folder=folder,
            on_epoch=lambda row: console.print(epoch_line(row), highlight=False, soft_wrap=True),
            on_step=show,
            resume=(folder / "latest.pt").exists(),
            **options,
        )


def train_in_processes(
    runs: Sequence[tuple[Config, Path]], jobs: int, options: Mapping[str, Any]
) -> Iterator[tuple[Result, Path]]:
    """Train in up to ``jobs`` processes; yield the result, without an agent, and the folder of each run.

    After Ctrl-C, the current runs are saved and stopped, and no further runs begin.
    """
    waiting, running = list(runs), dict[Future[Result], Path]()
    context, told = multiprocessing.get_context("spawn"), False
    with interrupt_flag() as interrupted, ProcessPoolExecutor(jobs, mp_context=context) as pool:
        while running or (waiting and not interrupted.is_set()):
            if interrupted.is_set() and not told:  # SIGTERM may reach this process alone, unlike Ctrl-C
                told = True
                for child in multiprocessing.active_children():
                    os.kill(child.pid or 0, signal.SIGINT)
            while waiting and len(running) < jobs and not interrupted.is_set():
                config, folder = waiting.pop(0)
                # The new process inherits that SIGINT is ignored; `train` handles SIGINT during a run.
                previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
                running[pool.submit(_train_quietly, config, folder, options)] = folder
                signal.signal(signal.SIGINT, previous)
            for future in wait(running, timeout=0.2, return_when=FIRST_COMPLETED).done:
                yield future.result(), running.pop(future)


def _train_quietly(config: Config, folder: Path, options: Mapping[str, Any]) -> Result:
    def show(row: Mapping[str, float]) -> None:
        print(f"seed {config.seed} | {epoch_line(row)}", flush=True)

    try:
        resume = (folder / "latest.pt").exists()
        result = train(config, folder=folder, on_epoch=show, resume=resume, **options)
    except Exception as error:
        if message := describe_user_error(error):  # the parent process does not get the traceback
            raise terminal.CommandError(f"seed {config.seed}: {message}", 3) from error
        raise
    return Result(None, result.history, result.interrupted)  # type: ignore[arg-type] # agents may be large


def print_result(result: Result, folder: Path) -> int:
    """Print the result and a command to run next; return the exit code, 130 after Ctrl-C, else 0."""
    state = "Interrupted; saved." if result.interrupted else "Done."
    if is_solved(result.history):
        state = "Solved: all episodes of the last two evaluations were successes."
    is_evaluated = evaluated(result.history) or not result.history
    success = f"Best success rate {result.best_success:.2f}" if is_evaluated else "No evaluations"
    print(f"{state} {success}; checkpoints and logs in {folder}")
    if result.interrupted:
        print(f"Continue with: her train --resume {folder}")
        return 130
    if result.history:
        print(f"Watch it: her watch {folder / 'best.pt'}")
    return 0
