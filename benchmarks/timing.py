"""Timing: of works that take turns, so that what slows the machine slows all alike, and of single calls."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from rich.progress import track

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Work:
    """Something that can be timed.

    Attributes:
        run: Does it so many times.
        ready: Makes what that needs, where no time is taken.
        parts: Equal parts of one time, each of which is to be told the time of.
    """

    run: Callable[[int], None]
    ready: Callable[[int], None] = lambda _: None
    parts: int = 1


@dataclass(frozen=True)
class Pace:
    """How long works are timed.

    Attributes:
        turns: Number of turns.
        seconds: About how long each work takes in each turn.
    """

    turns: int
    seconds: float

    def __str__(self) -> str:
        return f"medians of {self.turns} turns of about {self.seconds:g} s each"


def measure(
    works: Mapping[Key, Work], pace: Pace, clock: Callable[[], float] = time.perf_counter
) -> dict[Key, np.ndarray]:
    """Return the seconds of a part of each work in each turn, (turns,).

    Args:
        works: The works.
        pace: Number and length of the turns.
        clock: Time in seconds: by default wall-clock time; `time.thread_time` counts processor time only.
    """
    calls = {key: _calls_in(work, pace.seconds) for key, work in works.items()}
    costs: dict[Key, list[float]] = {key: [] for key in works}
    for _ in track(range(pace.turns), "measuring", transient=True):
        for key, work in works.items():
            costs[key].append(_time(work, calls[key], clock) / (calls[key] * work.parts))
    return {key: np.array(values) for key, values in costs.items()}


def _calls_in(work: Work, seconds: float) -> int:
    calls = 1
    while (elapsed := _time(work, calls)) < seconds / 4:
        calls *= 2
    return max(1, round(calls * seconds / elapsed))


def _time(work: Work, calls: int, clock: Callable[[], float] = time.perf_counter) -> float:
    # What ran before has taken the caches, and memory that the first calls fetch back from the system.
    warming = calls // 10 + 1
    work.ready(warming)
    work.run(warming)
    work.ready(calls)
    gc.disable()
    try:
        start = clock()
        work.run(calls)
        return clock() - start
    finally:
        gc.enable()


class Stopwatch:
    """Seconds of the processor that calls of some functions took.

    Attributes:
        seconds: So far.
        calls: So far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, timed."""

        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.thread_time()
            result = function(*arguments, **options)
            self.seconds += time.thread_time() - start
            self.calls += 1
            return result

        return timed
