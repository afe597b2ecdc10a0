"""Scenarios of episodes of different lengths, full buffers, open episodes and several environments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from her_wrappers.conformance.env import EndOfEpisode, Transition
from her_wrappers.conformance.rows import DecodedRows
from her_wrappers.conformance.scenarios.driver import HORIZON, AdapterClass, BufferDriver, scenario


@scenario
def different_lengths(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Episodes of 1 to 12 steps."""
    driver = BufferDriver(adapter, seed)
    lengths = driver.rng.permutation(np.tile(np.arange(1, HORIZON + 1), 8)).tolist()
    driver.add_episodes([HORIZON, *lengths])
    return driver.rows(27)


@dataclass
class FullBuffer:
    """Rows sampled while new episodes replace old episodes in a small buffer.

    Attributes:
        rows: All rows.
        newest: Number of the newest complete episode when each batch was sampled.
        capacity: Capacity in transitions.
    """

    rows: DecodedRows
    newest: list[int]
    capacity: int


@scenario
def full_buffer(adapter: AdapterClass, seed: int) -> FullBuffer:
    """Episodes of different lengths with several times as many steps as the buffer can store."""
    driver = BufferDriver(adapter, seed, buffer_size=40)
    batches, newest = [], []
    for length in driver.rng.integers(1, 10, size=48).tolist():
        episode = driver.add_episode(length)
        if len(driver.env.episodes) % 2 and len(driver.env.episodes) > 8:
            batches += driver.batches(1, 96)
            newest.append(episode.number)
    return FullBuffer(driver.decode(batches), newest, 40)


@scenario
def overwritten_without_sampling(adapter: AdapterClass, seed: int) -> DecodedRows:
    """All transitions are overwritten between two batches."""
    driver = BufferDriver(adapter, seed, buffer_size=40)
    driver.add_episodes([5] * 8)
    driver.batches(1)
    driver.add_episodes([3, 7] * 4)
    return driver.rows(4)


@scenario
def episode_as_long_as_the_buffer(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Episodes of exactly buffer_size steps."""
    driver = BufferDriver(adapter, seed, buffer_size=HORIZON)
    driver.add_episodes([HORIZON] * 2)
    return driver.rows(4)


@scenario
def open_episode(adapter: AdapterClass, seed: int) -> DecodedRows:
    """An episode of which only 4 steps were added."""
    driver = BufferDriver(adapter, seed)
    driver.add_episodes([6] * 4)
    driver.add_episode(8, end="open", steps=4)
    return driver.rows(8)


@scenario
def interrupted_episode(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Every second episode is ended with end_episode after 3 steps."""
    driver = BufferDriver(adapter, seed)
    for _ in range(6):
        driver.add_episode(8, end="interrupted", steps=3)
        driver.buffer.end_episode(0)
        driver.add_episode(5)
    return driver.rows(8)


@scenario
def several_environments(adapter: AdapterClass, seed: int) -> DecodedRows:
    """Interleaved steps of three environments, with episodes of different lengths."""
    driver = BufferDriver(adapter, seed, num_envs=3)
    streams = [_endless(driver, ends) for ends in (("time limit",), ("time limit", "crash"), ("time limit",))]
    for _ in range(60):
        for env_index, stream in enumerate(streams):
            driver.buffer.add(*next(stream), env_index)
    return driver.rows(16)


def _endless(driver: BufferDriver, ends: Sequence[EndOfEpisode]) -> Iterator[Transition]:
    """Yield the steps of an endless sequence of episodes, which end as ``ends`` says in turn."""
    while True:
        for end in ends:
            episode = driver.env.new_episode(end=end)
            yield from driver.env.transitions(episode, int(driver.rng.integers(1, 9)))
