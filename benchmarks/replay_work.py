"""What is timed of replay buffers: drawing batches, alone and as a learner does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from benchmarks.replay_buffers.floor import Floor
from benchmarks.timing import Work

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

    return Work(run, parts=len(walks[0]))
