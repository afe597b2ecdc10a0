"""How long a full buffer takes to save and to load, how large its file is, and what memory that takes.

    python -m benchmarks.snapshot [--transitions 1000000]

A step is 25 numbers of observation, a goal of 3 and an action of 4, in episodes of 50. Each number is the
median of five; the memory is that of Python and NumPy at its peak, beside the buffer itself.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.replay_task import ACTION_SPACE, HORIZON, OBSERVATION_SPACE, compute_reward, make_episodes
from her_wrappers import HindsightReplayBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TURNS = 5


def make_buffer(transitions: int) -> HindsightReplayBuffer:
    """Fill a buffer with random episodes."""
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
    """Return the median over the turns."""
    times = []
    for _ in range(TURNS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def peak(work: Callable[[], Any]) -> int:
    """Return the most bytes that are allocated beside those of before."""
    tracemalloc.start()
    result = work()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most - (0 if result is None else result.nbytes)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--transitions", type=int, default=1_000_000, help="of the buffer [1000000]")
    buffer = make_buffer(parser.parse_args(arguments).transitions)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "buffer"

        def save() -> None:
            buffer.save(path)

        def load() -> HindsightReplayBuffer:
            return HindsightReplayBuffer.load(path, compute_reward=compute_reward)

        print(f"{len(buffer):,} transitions, {buffer.nbytes / 1e6:.0f} MB in memory")
        print(f"save {seconds(save):.2f} s, {peak(save) / 1e6:.0f} MB beside it")
        print(f"file {path.stat().st_size / 1e6:.0f} MB")
        print(f"load {seconds(load):.2f} s, {peak(load) / 1e6:.0f} MB beside it")


if __name__ == "__main__":
    main()
