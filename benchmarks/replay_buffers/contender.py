"""The competitors in `benchmarks.replay`: replay buffers, and a lower bound on the time of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from benchmarks.replay_task import ACTION, GOAL, HORIZON, OBSERVATION, UNREACHED, Floats, compute_reward
from benchmarks.timing import Workload, repeat

if TYPE_CHECKING:
    from her_wrappers import Episode

SAMPLED_GOALS = 4
RELABELED_SHARE = SAMPLED_GOALS / (SAMPLED_GOALS + 1)


class Sampling(NamedTuple):
    """Name of a measurement: sample batches of ``batch_size`` from buffer ``name`` with ``stored`` rows."""

    name: str
    stored: int
    batch_size: int


class AddAndSample(NamedTuple):
    """Name of a measurement: add to buffer ``name``, and sample after every step or after every episode."""

    name: str
    rhythm: str


Key: TypeAlias = Sampling | AddAndSample
Costs: TypeAlias = Mapping[Key, np.ndarray]
"""Seconds per batch in each turn, (turns,)."""


class BatchColumns(NamedTuple):
    """The columns of a batch that `check_relabeling` needs."""

    achieved: Floats  # (B, G), of the next states
    desired: Floats  # (B, G)
    rewards: Floats  # (B,)


class Contender(ABC):
    """A buffer of ``capacity`` rows with four relabeled rows per original row, by strategy ``future``."""

    name: str  # in the tables
    setting: str = ""  # configuration, for the page
    rows_per_transition = 1  # that the buffer stores

    @abstractmethod
    def __init__(self, capacity: int) -> None: ...

    @abstractmethod
    def step_arguments(self, episode: Episode) -> list[Any]:
        """Return the arguments of `add_step` for each step of an episode."""

    @abstractmethod
    def add_step(self, step: Any) -> None:
        """Add one step; the last step ends the episode."""

    def episode_argument(self, episode: Episode) -> Any:
        """Return the argument of `add_episode` for an episode."""
        return self.step_arguments(episode)

    def add_episode(self, argument: Any) -> None:
        """Add a complete episode by the fastest method that the library documents."""
        for step in argument:
            self.add_step(step)

    @abstractmethod
    def sample(self, batch_size: int) -> Any:
        """Sample a batch."""

    @abstractmethod
    def columns(self, batch: Any) -> BatchColumns:
        """Return the columns of a batch."""

    def fill(self, stored: int, episodes: list[Episode]) -> None:
        """Add the episodes repeatedly until the buffer has ``stored`` rows."""
        arguments = [self.episode_argument(episode) for episode in episodes]
        for i in range(stored // (HORIZON * self.rows_per_transition)):
            self.add_episode(arguments[i % len(arguments)])

    def sampling(self, batch_size: int) -> Workload:
        """Return a workload that samples batches."""
        return repeat(lambda: self.sample(batch_size))

    def adding_episodes(self, episodes: list[Episode], batch_size: int) -> Workload:
        """Return a workload that adds an episode, and samples a batch."""
        arguments = [self.episode_argument(episode) for episode in episodes]

        def run(calls: int) -> None:
            for i in range(calls):
                self.add_episode(arguments[i % len(arguments)])
                self.sample(batch_size)

        return Workload(run)

    def adding_steps(self, episodes: list[Episode], batch_size: int) -> Workload:
        """Return a workload that adds an episode step by step, and samples a batch after each step."""
        arguments = [self.step_arguments(episode) for episode in episodes]

        def run(calls: int) -> None:
            for i in range(calls):
                for step in arguments[i % len(arguments)]:
                    self.add_step(step)
                    self.sample(batch_size)

        return Workload(run, units=len(arguments[0]))


def check_relabeling(contender: Contender, batch_size: int = 256, batches: int = 40) -> float:
    """Return the relabeled share of sampled batches.

    Raises:
        RuntimeError: The share is not four fifths, a relabeled goal was achieved before the step, or a reward
            does not match its goals. The times of such a buffer could not be compared.
    """
    samples = [contender.columns(contender.sample(batch_size)) for _ in range(batches)]
    achieved, desired, rewards = (np.concatenate(columns) for columns in zip(*samples, strict=True))
    relabeled = desired[:, 0] < UNREACHED
    share = float(relabeled.mean())
    findings = {
        "does not relabel four fifths": abs(share - RELABELED_SHARE) > 0.02,
        "takes goals from before the step": (desired[relabeled, 0] < achieved[relabeled, 0]).any(),
        "gives other rewards than compute_reward": (rewards != compute_reward(achieved, desired)).any(),
    }
    for finding, holds in findings.items():
        if holds:
            raise RuntimeError(f"{contender.name} {finding} (share {share:.3f})")
    return share


STEP = np.dtype(
    [
        ("observation", np.float32, OBSERVATION),
        ("achieved_goal", np.float32, GOAL),
        ("desired_goal", np.float32, GOAL),
        ("action", np.float32, ACTION),
        ("reward", np.float32),
        ("steps_left", np.int32),
        ("terminated", np.bool_),
        ("truncated", np.bool_),
    ],
    align=True,
)
"""All data of a step."""

RELABELED_GOAL = np.dtype([("goal", np.float32, GOAL)])


class Floor:
    """Lower bound of sampling: copies the records of steps and next steps, and the relabeled goals.

    The indices are random and differ between batches, as in a buffer, but are sampled before the measurement.
    """

    name = "copying the rows"

    def __init__(self, stored: int) -> None:
        # Not zeros, for which the system would map all pages to one page of memory.
        self._steps = np.full(stored + 1, np.ones((), STEP))
        self._goals = np.full(stored + 1, np.ones((), RELABELED_GOAL))
        self._rng = np.random.default_rng(0)

    def sampling(self, batch_size: int) -> Workload:
        """Return a workload that copies the rows of batches at indices that were sampled before."""
        steps, goals, rng = self._steps, self._goals, self._rng
        indices: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

        def draw(calls: int) -> None:
            indices.clear()
            for _ in range(calls):
                rows = rng.integers(len(steps) - 1, size=batch_size)
                sources = rng.integers(len(goals), size=round(RELABELED_SHARE * batch_size))
                indices.append((rows, rows + 1, sources))

        def gather(_: int) -> None:
            for rows, following, sources in indices:
                steps.take(rows)
                steps.take(following)
                goals.take(sources)

        return Workload(gather, prepare=draw)
