"""Number of random trials (interruptions, lack of memory, kills, damaged files) that gave wrong data.

For example:

    python -m benchmarks.reliability --quick             a hundredth of the trials, as in the default tests
    python -m benchmarks.reliability --processes 2       all trials, about an hour
    python -m benchmarks.reliability --seed 1            other trials

**Interrupts.** `KeyboardInterrupt` is raised before a random bytecode instruction of `her_wrappers`, while
the replay buffer executes `add`, `add_episode`, `add_episodes`, `extend`, `sample`, `update_priorities`,
`clear` or `save` (arrays and `device="cpu"`, a full buffer of 40 steps), or while a recorder records into
memory, a replay buffer or an archive (single environments, and vector environments in the three autoreset
modes). Afterwards the buffer must have its episodes from before the call or from after it, or those from
before without some of the oldest; every row must be a step that was recorded, and no row may be there twice;
no lock may be held; a saved file must be the old or the new one. Recorders may lose the open episodes and
the episodes that are being delivered; they must deliver all later steps, and no step twice.

**Lack of memory** is a `MemoryError` raised in the same way, or a limit of the operating system
(`RLIMIT_AS`) that leaves too little memory for large arrays. A call under a limit counts only if it failed.

**Kills** are SIGKILLs of processes that save a buffer or write an archive.

**Rows** are sampled from buffers of random spaces, options and use, and judged by an oracle in plain Python.

**Damaged files** (flipped bits, cuts, insertions, zeros, noise) must give `CorruptFileError` or the
original episodes.

The trials are those of tests/support/trials.py; a failed trial is repeated by its seed. Processor times do
not include the processes that are killed or run out of memory.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.progress import Progress

from benchmarks.result_page import Benchmark, Grid, count
from tests.support.trials import KINDS

BENCHMARK = Benchmark("reliability", "Interruptions, kills and damage: random trials", __doc__)
QUICK = 100
"""Divisor of the number of trials with --quick."""

BLOCK = 20
"""Trials that a process makes before it reports."""


class Block(NamedTuple):
    """Results of some trials of one kind.

    Attributes:
        events: Number of events, such as interrupts, kills or sampled rows; a trial can have several.
        seconds: Processor time [s].
        failures: Seed and traceback of each failed trial.
    """

    events: int
    seconds: float
    failures: list[tuple[list[int], str]]


def run_block(kind: int, first: int, seed: int) -> Block:
    """Run `BLOCK` trials of one kind.

    Args:
        kind: Index in `KINDS`.
        first: Number of the first trial.
        seed: Seed of all trials; the option ``--seed``.
    """
    begin, events, failures = time.process_time(), 0, []
    for number in range(first, first + BLOCK):
        trial = [seed, kind, number]
        with tempfile.TemporaryDirectory() as folder:
            try:
                events += KINDS[kind].run(np.random.default_rng(trial), Path(folder))
            except Exception:
                failures.append((trial, traceback.format_exc()))
                events += 1
    return Block(events, time.process_time() - begin, failures)


def run_kind(pool: ProcessPoolExecutor, kind: int, options: argparse.Namespace, progress: Progress) -> Block:
    """Run trials of one kind in processes until there are enough events; print failures when they occur."""
    what, wanted = KINDS[kind].what, KINDS[kind].count // (QUICK if options.quick else 1)
    task = progress.add_task(what, total=wanted)
    first, total, pending = 0, Block(0, 0.0, []), set()
    while total.events < wanted:
        while len(pending) < options.processes:
            pending.add(pool.submit(run_block, kind, first, options.seed))
            first += BLOCK
        done, pending = wait(pending, return_when=FIRST_COMPLETED)
        for block in (future.result() for future in done):
            total = Block(*(old + new for old, new in zip(total, block, strict=True)))
            progress.update(task, completed=min(total.events, wanted))
            for trial, text in block.failures:
                progress.console.print(f"failed: {what}, seed {trial}\n{text}", markup=False)
    for future in pending:
        future.cancel()
    return total


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all trials, print their numbers, and write the page; exit code 1 if a trial failed."""
    options = BENCHMARK.parse(
        arguments,
        quick="a hundredth of the trials",
        processes={"type": count, "default": 2, "metavar": "N", "help": "number of processes [2]"},
        seed={"type": int, "default": 0, "metavar": "N", "help": "seed of the campaign [0]"},
    )
    results = run(options)
    rows = [
        [kind.what, f"{block.events:,}", str(len(block.failures)), f"{block.seconds:,.0f}"]
        for kind, block in zip(KINDS, results, strict=True)
    ]
    failed = [
        [kind.what, str(trial), text.strip().splitlines()[-1]]
        for kind, block in zip(KINDS, results, strict=True)
        for trial, text in block.failures
    ]
    grids = [Grid("Trials", ["trials", "number", "failed", "processor time [s]"], rows)]
    if failed:
        grids.append(Grid("Failed trials", ["what", "seed", "error"], failed))
    BENCHMARK.publish(options, grids, {"run": f"{options.processes} processes"})
    raise SystemExit(1 if failed else 0)


def run(options: argparse.Namespace) -> list[Block]:
    """Run the trials of each kind, one kind after the other, and return the results in this order."""
    with ProcessPoolExecutor(options.processes) as pool, Progress() as progress:
        return [run_kind(pool, kind, options, progress) for kind in range(len(KINDS))]


if __name__ == "__main__":
    main()
