"""Time, file size and memory of saving and loading a full buffer.

For example:

    python -m benchmarks.snapshot --quick                  a short test
    python -m benchmarks.snapshot --transitions 250000     a smaller buffer

Times are wall-clock times. The memory is the peak of Python's and NumPy's allocations while saving or
loading.
"""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.replay_buffers.ours import Ours
from benchmarks.replay_task import compute_reward, make_episodes
from benchmarks.result_page import Benchmark, Grid, count
from benchmarks.timing import Timing, measure, repeat
from her_wrappers import HindsightReplayBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BENCHMARK = Benchmark("snapshot", "How long does saving a replay buffer take?", __doc__)
FEW = 10_000
TURNS = 5


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
    transitions = FEW if options.quick else options.transitions
    ours = Ours(transitions)
    ours.fill(transitions, make_episodes(100))
    buffer = ours.buffer
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "buffer"

        def save() -> None:
            buffer.save(path)

        def load() -> HindsightReplayBuffer:
            return HindsightReplayBuffer.load(path, compute_reward=compute_reward)

        works = {"save": save, "load": load}
        seconds = measure({name: repeat(work) for name, work in works.items()}, Timing(TURNS, 0))
        rows = [
            [name, f"{np.median(seconds[name]):.2f}", f"{peak(work) / 1e6:.0f}"]
            for name, work in works.items()
        ]
        stored = path.stat().st_size
    grid = Grid("Saving and loading", ["", "seconds", "peak memory without the buffer [MB]"], rows)
    facts = {
        "buffer": f"{len(buffer):,} transitions, {buffer.nbytes / 1e6:.0f} MB in memory",
        "run": f"medians of {TURNS} repetitions",
    }
    (_, saving, _), (_, loading, _) = rows
    answer = (
        f"Saving {len(buffer):,} transitions takes {saving} seconds, and loading them {loading} seconds; the "
    )
    answer += f"file has {stored / 1e6:.0f} MB."
    BENCHMARK.publish(options, answer, [grid], facts)


if __name__ == "__main__":
    main()
