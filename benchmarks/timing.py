"""Timing of workloads that run in turns, so that a busy machine slows all workloads."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from rich.progress import track

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Workload:
    """A workload to measure: functions that make or prepare a given number of calls."""

    run: Callable[[int], None]  # makes the calls
    prepare: Callable[[int], None] = lambda _: None  # prepares their input, and is not timed
    units: int = 1  # in one call; times are per unit


def repeat(function: Callable[[], Any], finish: Callable[[], Any] = lambda: None) -> Workload:
    """Return a workload that calls a function repeatedly; after the last call, it calls ``finish``."""

    def run(calls: int) -> None:
        for _ in range(calls):
            function()
        finish()

    return Workload(run)


def stepping(env: gym.Env[Any, Any]) -> Workload:
    """Return the workload of stepping a single environment, which is reset when an episode ends."""
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(97)]
    env.reset(seed=0)

    def run(calls: int) -> None:
        for i in range(calls):
            _, _, terminated, truncated, _ = env.step(actions[i % 97])
            if terminated or truncated:
                env.reset()

    return Workload(run)


@dataclass(frozen=True)
class Timing:
    """Number of turns of a measurement, and time of each workload in a turn."""

    turns: int
    seconds: float  # approximate time of each workload in each turn

    def __str__(self) -> str:
        return f"{self.turns} turns of {self.seconds:g} s"


def measure(
    workloads: Mapping[Key, Workload], timing: Timing, clock: Callable[[], float] = time.perf_counter
) -> dict[Key, np.ndarray]:
    """Run the workloads in turns; return the seconds per unit of each workload in each turn, (turns,)."""
    calls = {key: _calls_in(work, timing.seconds) for key, work in workloads.items()}
    costs: dict[Key, list[float]] = {key: [] for key in workloads}
    for _ in track(range(timing.turns), "measuring", transient=True):
        for key, work in workloads.items():
            costs[key].append(_time(work, calls[key], clock) / (calls[key] * work.units))
    return {key: np.array(values) for key, values in costs.items()}


def _calls_in(work: Workload, seconds: float) -> int:
    calls = 1
    while (elapsed := _time(work, calls)) < seconds / 4:
        calls *= 2
    return max(1, round(calls * seconds / elapsed))


def _time(work: Workload, calls: int, clock: Callable[[], float] = time.perf_counter) -> float:
    # The first calls are slower: the workload before used the caches, and freed memory returns to the system.
    warmup = calls // 10 + 1
    work.prepare(warmup)
    work.run(warmup)
    work.prepare(calls)
    gc.disable()
    try:
        start = clock()
        work.run(calls)
        return clock() - start
    finally:
        gc.enable()
