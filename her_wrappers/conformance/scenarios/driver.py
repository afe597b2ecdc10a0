"""BufferDriver, which adds episodes to a buffer and decodes its batches, and the registry of scenarios."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from her_wrappers.conformance.adapter import STRATEGIES, ReplayAdapter
from her_wrappers.conformance.env import AddedEpisode, ConformanceEnv, EndOfEpisode
from her_wrappers.conformance.rows import DecodedRows, read_batch

N_SAMPLED_GOAL = 4
"""Relabeled transitions per original one."""

HORIZON = 12
"""Maximum number of steps of an episode."""

AdapterClass: TypeAlias = type[ReplayAdapter]
Batches: TypeAlias = Sequence[dict[str, np.ndarray]]


@dataclass
class BufferDriver:
    """A new buffer, with methods that add episodes and sample decoded rows.

    Args:
        adapter: The adapter class.
        seed: Seed of the buffer and of the episodes.
        strategy: Goal selection strategy; by default the first offered strategy.
        buffer_size: Capacity in transitions.
        k: Relabeled transitions per original one.
        num_envs: Number of environments.
        env: Environment; by default with vectors as goals.
        options: Further options of the adapter.

    Attributes:
        buffer: The object of the adapter class.
        rng: Generator of the random lengths of episodes, seeded with ``seed``.
    """

    adapter: AdapterClass
    seed: int
    strategy: str = ""
    buffer_size: int = 4000
    k: int = N_SAMPLED_GOAL
    num_envs: int = 1
    env: ConformanceEnv = field(default_factory=ConformanceEnv)
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the buffer."""
        self.strategy = self.strategy or first_strategy(self.adapter)
        self.env.sparse = self.adapter.termination == "success"
        self.rng = np.random.default_rng(self.seed)
        self.buffer = self.adapter(
            self.env,
            buffer_size=self.buffer_size,
            strategy=self.strategy,
            n_sampled_goal=self.k,
            max_episode_steps=HORIZON,
            num_envs=self.num_envs,
            seed=self.seed,
            **self.options,
        )

    def add_episode(
        self,
        length: int,
        *,
        end: EndOfEpisode = "time limit",
        changing: bool = False,
        steps: int | None = None,
        env_index: int = 0,
    ) -> AddedEpisode:
        """Add an episode, or its first steps, and return it.

        Args:
            length: Number of steps of the whole episode.
            end: How the episode ends.
            changing: Whether the desired goal changes every second step.
            steps: Number of steps to add; None adds all steps.
            env_index: Index of the environment.
        """
        episode = self.env.new_episode(end=end, changing=changing)
        for transition in self.env.transitions(episode, length):
            self.buffer.add(*transition, env_index=env_index)
            if episode.length == steps:
                break
        return episode

    def add_episodes(self, lengths: Sequence[int], ends: Sequence[EndOfEpisode] = ("time limit",)) -> None:
        """Add episodes of the given lengths; episode i ends as ``ends[i % len(ends)]`` says."""
        for i, length in enumerate(lengths):
            self.add_episode(length, end=ends[i % len(ends)])

    def batches(self, count: int, rows: int = 128) -> list[dict[str, np.ndarray]]:
        """Sample ``count`` batches of ``rows`` rows each, and return their arrays."""
        return [self.read(self.buffer.sample(rows), rows) for _ in range(count)]

    def read(self, batch: Any, rows: int) -> dict[str, np.ndarray]:
        """Return copies of the arrays of a batch of ``rows`` rows; raise BatchError for a wrong batch."""
        return read_batch(batch, self.env, rows, terminations=self.adapter.termination is not None)

    def rows(self, count: int, rows: int = 128) -> DecodedRows:
        """Sample ``count`` batches of ``rows`` rows each, and return all rows, decoded."""
        return self.decode(self.batches(count, rows))

    def decode(self, batches: Batches) -> DecodedRows:
        """Return the rows of batches, decoded."""
        return DecodedRows(self.env, self.strategy, self.adapter.termination, batches)


def first_strategy(adapter: AdapterClass) -> str:
    """Return the strategy that most scenarios use: the first of `STRATEGIES` that the adapter offers."""
    return next(name for name in STRATEGIES if name in adapter.offers)


Scenario: TypeAlias = Callable[[AdapterClass, int], Any]
SCENARIOS: dict[str, Scenario] = {}
"""All scenarios by name. A scenario is a function of the adapter class and the seed."""


def scenario(function: Scenario) -> Scenario:
    """Register a scenario; its name is the function name with spaces instead of underscores."""
    SCENARIOS[function.__name__.replace("_", " ").strip()] = function
    return function


def changed_keys(batch: dict[str, Any], copies: dict[str, np.ndarray]) -> list[str]:
    """Return the keys of a batch whose values differ from earlier copies."""
    return [key for key in copies if not is_same(batch[key], copies[key])]


def is_same(a: Any, b: Any) -> bool:
    """Return whether ``a`` and ``b`` have the same shape, dtype and values; NaNs count as equal."""
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=True))
