"""Time and memory of `her doctor` on an archive of 1,000,000 transitions with the sizes of FetchPush.

For example:

    python -m benchmarks.doctor --quick        a twentieth of the archive, once
    python -m benchmarks.doctor --repeat 9     a minute or two

The archive has random walks. Each repetition executes `her doctor ARCHIVE` in a new process; the time
includes the start of Python.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.result_page import Benchmark, Grid, at_most, count, spread
from her_wrappers import EpisodeArchive
from her_wrappers.recording.episodes import Episodes

BENCHMARK = Benchmark("doctor", "How long does a diagnosis take?", __doc__)
EPISODES, STEPS, BLOCK = 20_000, 50, 1000
"""Number of episodes, steps of each episode, and number of episodes that are generated at once."""


def write_archive(folder: Path, *, episodes: int = EPISODES) -> None:
    """Write episodes of a random walk with the shapes and dtypes of FetchPush."""
    rng = np.random.default_rng(0)
    states, steps = BLOCK * (STEPS + 1), BLOCK * STEPS
    with EpisodeArchive(folder) as archive:
        for _ in range(episodes // BLOCK):
            walk = 0.01 * rng.normal(size=(BLOCK, STEPS + 1, 3)).cumsum(axis=1)
            goals = rng.uniform(-0.15, 0.15, (BLOCK, 1, 3))
            success = np.linalg.norm(walk - goals, axis=-1)[:, 1:].reshape(-1) < 0.05
            archive.add_episodes(
                Episodes(
                    observations={
                        "observation": rng.normal(size=(states, 25)),
                        "achieved_goal": walk.reshape(states, 3),
                        "desired_goal": np.repeat(goals, STEPS + 1, axis=1).reshape(states, 3),
                    },
                    actions=rng.uniform(-1, 1, (steps, 4)).astype(np.float32),
                    rewards=success - 1.0,
                    lengths=np.full(BLOCK, STEPS),
                    terminated=np.zeros(BLOCK, np.bool_),
                    truncated=np.ones(BLOCK, np.bool_),
                    infos={"is_success": success},
                )
            )


COSTS = ("wall-clock time [s]", "processor time [s]", "largest resident memory [MiB]")


def run_doctor(archive: Path) -> tuple[float, float, float]:
    """Run the command in a process, and return its costs in the order of `COSTS`."""
    begin = time.perf_counter()
    arguments = [sys.executable, "-m", "her_wrappers.cli", "doctor", str(archive)]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)  # the resource use of this process alone
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, arguments)
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(
        arguments,
        quick="a twentieth of the archive, once",
        repeat={"type": count, "default": 5, "help": "number of repetitions [%(default)s]"},
    )
    episodes, repeat = (BLOCK, 1) if options.quick else (EPISODES, options.repeat)
    with tempfile.TemporaryDirectory() as folder:
        write_archive(Path(folder) / "archive", episodes=episodes)
        costs = [run_doctor(Path(folder) / "archive") for _ in range(repeat)]
    columns = list(zip(*costs, strict=True))
    requirements = [
        at_most("seconds of a diagnosis", 20, statistics.median(columns[0])),
        at_most("MiB of memory", 1_000, max(columns[2])),
    ]
    rows = [[name, spread(values)] for name, values in zip(COSTS, columns, strict=True)]
    grid = Grid("Time and memory", ["", "median (range)"], rows)
    run = f"{episodes * STEPS:,} transitions in {episodes:,} episodes; repetitions: {repeat}"
    answer = f"`her doctor` takes {requirements[0].value} seconds and at most {requirements[1].value} MiB "
    answer += f"of memory for {episodes * STEPS:,} transitions."
    BENCHMARK.publish(options, answer, [grid], {"run": run}, requirements=requirements)


if __name__ == "__main__":
    main()
