"""Time, file size and memory of saving and loading a full buffer.

For example:

    python -m benchmarks.snapshot --quick                  a short test
    python -m benchmarks.snapshot --transitions 250000     a smaller buffer

Observations have 25 numbers, goals 3 and actions 4; episodes have 50 steps. Times are wall-clock times. The
memory is the peak of Python's and NumPy's allocations, without the buffer itself.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.replay_task import ACTION_SPACE, HORIZON, OBSERVATION_SPACE, compute_reward, make_episodes
from benchmarks.result_page import Benchmark, Grid, count
from her_wrappers import HindsightReplayBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BENCHMARK = Benchmark("snapshot", "Saving and loading a buffer", __doc__)
FEW = 10_000
TURNS = 5


def make_buffer(transitions: int) -> HindsightReplayBuffer:
    """Return a buffer that is full of random episodes."""
    buffer = HindsightReplayBuffer(
        OBSERVATION_SPACE,
        ACTION_SPACE,
        buffer_size=transitions,
        compute_reward=compute_reward,
        termination="keep",
    )
    seed = 0
    while len(buffer) <= transitions - HORIZON:
        count = min(1000, (transitions - len(buffer)) // HORIZON)
        buffer.add_episodes(make_episodes(count, seed))
        seed += 1
    return buffer


def seconds(work: Callable[[], Any]) -> float:
    """Return the median wall-clock time over the turns."""
    times = []
    for _ in range(TURNS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def peak(work: Callable[[], Any]) -> int:
    """Return the peak of allocated bytes, without the returned buffer."""
    tracemalloc.start()
    result = work()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most - (0 if result is None else result.nbytes)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(
        arguments,
        quick=f"{FEW:,} transitions",
        transitions={"type": count, "default": 1_000_000, "help": "transitions in the buffer [%(default)s]"},
    )
    buffer = make_buffer(FEW if options.quick else options.transitions)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "buffer"

        def save() -> None:
            buffer.save(path)

        def load() -> HindsightReplayBuffer:
            return HindsightReplayBuffer.load(path, compute_reward=compute_reward)

        rows = [
            [name, f"{seconds(work):.2f}", f"{peak(work) / 1e6:.0f}"]
            for name, work in (("save", save), ("load", load))
        ]
        stored = path.stat().st_size
    grid = Grid("Saving and loading", ["", "seconds", "MB of memory without the buffer"], rows)
    facts = {
        "buffer": f"{len(buffer):,} transitions, {buffer.nbytes / 1e6:.0f} MB in memory",
        "file": f"{stored / 1e6:.0f} MB",
        "run": f"medians of {TURNS} turns",
    }
    BENCHMARK.publish(options, [grid], facts)


if __name__ == "__main__":
    main()
