"""Random trials with interruptions, lack of memory, kills and damaged files: how many gave wrong data.

For example:

    python -m benchmarks.reliability --quick             a hundredth of the trials, as in the default tests
    python -m benchmarks.reliability --processes 2       all trials, about an hour
    python -m benchmarks.reliability --seed 1            other trials

- **Interrupts**: `KeyboardInterrupt` is raised before a random bytecode instruction, while a full buffer, an
  archive or a recorder is in use. Afterwards, every stored episode must be complete and unchanged, no step
  may occur twice, and a saved file must be the old or the new one. Only some of the oldest and newest
  episodes may be missing.
- **Lack of memory**: the same with a `MemoryError`, or under a limit of the operating system. Calls that
  succeed despite the limit are not counted.
- **Kills**: SIGKILL hits processes that save a buffer or write an archive; all saved episodes must be
  readable.
- **Rows**: random calls of buffers with random options; each sampled row is compared with a reference
  implementation in plain Python.
- **Damaged files** (flipped bits, cuts, insertions, zeros, noise): reading must raise `CorruptFileError` or
  return the original episodes.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.progress import Progress

from benchmarks.result_page import Benchmark, Grid, count
from tests.support.trials import KINDS

BENCHMARK = Benchmark("reliability", "Do interruptions, kills or damaged files give wrong data?", __doc__)


class Result(NamedTuple):
    """Result of trials: number of events such as kills or rows, and the failures."""

    events: int
    failures: list[tuple[tuple[int, ...], str]]


def run_trial(seed: tuple[int, int, int]) -> Result:
    """Run one trial; ``seed`` is the option ``--seed``, an index in `KINDS`, and the number of the trial."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            events, failures = KINDS[seed[1]].run(np.random.default_rng(seed), Path(folder)), []
        except Exception:
            events, failures = 1, [(seed, traceback.format_exc())]
    return Result(events, failures)


def run_kind(pool: ProcessPoolExecutor, kind: int, options: argparse.Namespace, progress: Progress) -> Result:
    """Run trials of one kind in processes until there are enough events; print failures when they occur."""
    what, wanted = KINDS[kind].what, KINDS[kind].count // (100 if options.quick else 1)
    task, total = progress.add_task(what, total=wanted), Result(0, [])
    for first in itertools.count(0, 10 * options.processes):
        seeds = [(options.seed, kind, first + i) for i in range(10 * options.processes)]
        for result in pool.map(run_trial, seeds, chunksize=5):
            total = Result(*(old + new for old, new in zip(total, result, strict=True)))
            for seed, text in result.failures:
                progress.console.print(f"failed: {what}, seed {seed}\n{text}", markup=False)
        progress.update(task, completed=min(total.events, wanted))
        if total.events >= wanted:
            break
    return total


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all trials, print their numbers, and write the page; exit code 1 if a trial failed."""
    options = BENCHMARK.parse(
        arguments,
        quick="a hundredth of the trials",
        processes={"type": count, "default": 2, "metavar": "N", "help": "number of processes [2]"},
        seed={"type": int, "default": 0, "metavar": "N", "help": "seed of the campaign [0]"},
    )
    with ProcessPoolExecutor(options.processes) as pool, Progress() as progress:
        results = [run_kind(pool, kind, options, progress) for kind in range(len(KINDS))]
    rows, failed = [], []
    for kind, (events, failures) in zip(KINDS, results, strict=True):
        rows.append([kind.what, f"{events:,}", str(len(failures))])
        failed += [[kind.what, str(seed), text.strip().splitlines()[-1]] for seed, text in failures]
    grids = [Grid("Random trials", ["trials", "number", "failed"], rows)]
    if failed:
        grids.append(Grid("Failed trials", ["what", "seed", "error"], failed))
    total = sum(result.events for result in results)
    answer = (
        f"{len(failed) or 'None'} of {total:,} random interruptions, kills, damaged files and sampled rows "
    )
    answer += "gave wrong data."
    BENCHMARK.publish(options, answer, grids, {"run": f"{options.processes} processes"})
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
