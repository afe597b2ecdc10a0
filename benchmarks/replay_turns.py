"""Timing in turns: everything is timed once a turn, so that what slows the machine slows all alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from rich.progress import track

from benchmarks.replay_buffers.floor import Floor

if TYPE_CHECKING:
    from benchmarks.replay_buffers.contender import Contender
    from her_wrappers import Episode


class Sampling(NamedTuple):
    """Drawing batches of a size from a buffer with so many rows."""

    name: str
    stored: int
    batch_size: int


class Learning(NamedTuple):
    """Adding and sampling as a learner does: a batch after every step, or after every episode."""

    name: str
    rhythm: str


Key: TypeAlias = Sampling | Learning
Costs: TypeAlias = Mapping[Key, np.ndarray]
"""Seconds a batch, in each turn: (turns,)."""


@dataclass(frozen=True)
class Work:
    """Something that can be timed.

    Attributes:
        run: Does it so many times.
        ready: Makes what that needs, where no time is taken.
        batches: Batches of one time.
    """

    run: Callable[[int], None]
    ready: Callable[[int], None] = lambda _: None
    batches: int = 1


def sampling(buffer: Contender | Floor, batch_size: int) -> Work:
    """Return the work of drawing batches."""
    if isinstance(buffer, Floor):
        return Work(lambda _: buffer.gather(), ready=lambda calls: buffer.draw(batch_size, calls))

    def run(calls: int) -> None:
        for _ in range(calls):
            buffer.sample(batch_size)

    return Work(run)


def learning_by_episode(buffer: Contender, episodes: list[Episode], batch_size: int) -> Work:
    """Return the work of adding an episode and drawing a batch."""
    wholes = [buffer.whole(episode) for episode in episodes]

    def run(calls: int) -> None:
        for i in range(calls):
            buffer.add_whole(wholes[i % len(wholes)])
            buffer.sample(batch_size)

    return Work(run)


def learning_by_step(buffer: Contender, episodes: list[Episode], batch_size: int) -> Work:
    """Return the work of adding an episode step by step and drawing a batch after each."""
    walks = [buffer.steps(episode) for episode in episodes]

    def run(calls: int) -> None:
        for i in range(calls):
            for step in walks[i % len(walks)]:
                buffer.add_step(step)
                buffer.sample(batch_size)

    return Work(run, batches=len(walks[0]))


def measure(works: Mapping[Key, Work], turns: int, seconds: float) -> Costs:
    """Return the seconds a batch of each work in each turn, which takes about ``seconds``."""
    calls = {key: _calls_in(work, seconds) for key, work in works.items()}
    costs: dict[Key, list[float]] = {key: [] for key in works}
    for _ in track(range(turns), "measuring", transient=True):
        for key, work in works.items():
            costs[key].append(_time(work, calls[key]) / (calls[key] * work.batches))
    return {key: np.array(values) for key, values in costs.items()}


def _calls_in(work: Work, seconds: float) -> int:
    calls = 1
    while (elapsed := _time(work, calls)) < seconds / 4:
        calls *= 2
    return max(1, round(calls * seconds / elapsed))


def _time(work: Work, calls: int) -> float:
    # What ran before has taken the caches, and memory that the first calls fetch back from the system.
    warming = calls // 10 + 1
    work.ready(warming)
    work.run(warming)
    work.ready(calls)
    gc.disable()
    try:
        start = time.perf_counter()
        work.run(calls)
        return time.perf_counter() - start
    finally:
        gc.enable()
