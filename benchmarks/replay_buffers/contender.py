"""Contender: the interface of replay buffers in `benchmarks.replay`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.replay_task import HORIZON, UNREACHED, Floats, compute_reward

if TYPE_CHECKING:
    from her_wrappers import Episode

SAMPLED_GOALS = 4
RELABELED_SHARE = SAMPLED_GOALS / (SAMPLED_GOALS + 1)


class BatchColumns(NamedTuple):
    """The columns of a batch that `check_relabeling` needs.

    Attributes:
        achieved: (B, G) next achieved goals.
        desired: (B, G) desired goals.
        rewards: (B,) rewards.
    """

    achieved: Floats
    desired: Floats
    rewards: Floats


class Contender(ABC):
    """A buffer that relabels four transitions for every original one, with the strategy ``future``.

    Attributes:
        name: Name in the tables.
        setting: Configuration, for the page.
        rows_per_transition: Number of rows that the buffer stores for each transition.

    Args:
        capacity: Capacity in rows.
    """

    name: str
    setting: str = ""
    rows_per_transition = 1

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


def check_relabeling(contender: Contender, batch_size: int = 256, batches: int = 40) -> float:
    """Return the relabeled share of sampled batches.

    Raises:
        RuntimeError: The share is not four fifths, a relabeled goal was achieved before the step, or a reward
            does not match its goals. Then times cannot be compared.
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
