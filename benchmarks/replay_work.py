"""Workloads of replay buffers: sampling batches, alone and while adding episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from benchmarks.replay_buffers.floor import Floor
from benchmarks.timing import Workload

if TYPE_CHECKING:
    from benchmarks.replay_buffers.contender import Contender
    from her_wrappers import Episode


class Sampling(NamedTuple):
    """Sampling batches of ``batch_size`` from the buffer ``name`` with ``stored`` rows."""

    name: str
    stored: int
    batch_size: int


class AddAndSample(NamedTuple):
    """Adding to the buffer ``name`` and sampling: a batch after every step, or after every episode."""

    name: str
    rhythm: str


Key: TypeAlias = Sampling | AddAndSample
Costs: TypeAlias = Mapping[Key, np.ndarray]
"""Seconds per batch in each turn, (turns,)."""


def sampling(buffer: Contender | Floor, batch_size: int) -> Workload:
    """Return a workload that samples batches."""
    if isinstance(buffer, Floor):
        return Workload(lambda _: buffer.gather(), prepare=lambda calls: buffer.draw(batch_size, calls))

    def run(calls: int) -> None:
        for _ in range(calls):
            buffer.sample(batch_size)

    return Workload(run)


def add_episodes_and_sample(buffer: Contender, episodes: list[Episode], batch_size: int) -> Workload:
    """Return a workload that adds an episode, and samples a batch."""
    arguments = [buffer.episode_argument(episode) for episode in episodes]

    def run(calls: int) -> None:
        for i in range(calls):
            buffer.add_episode(arguments[i % len(arguments)])
            buffer.sample(batch_size)

    return Workload(run)


def add_steps_and_sample(buffer: Contender, episodes: list[Episode], batch_size: int) -> Workload:
    """Return a workload that adds an episode step by step, and samples a batch after each step."""
    arguments = [buffer.step_arguments(episode) for episode in episodes]

    def run(calls: int) -> None:
        for i in range(calls):
            for step in arguments[i % len(arguments)]:
                buffer.add_step(step)
                buffer.sample(batch_size)

    return Workload(run, units=len(arguments[0]))
