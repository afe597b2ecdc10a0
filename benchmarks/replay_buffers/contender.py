"""Contender: a replay buffer as `benchmarks.replay` sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.replay_task import HORIZON, UNREACHED, Floats, compute_reward

if TYPE_CHECKING:
    from her_wrappers import Episode

SAMPLED_GOALS = 4
RELABELED_SHARE = SAMPLED_GOALS / (SAMPLED_GOALS + 1)


class Rows(NamedTuple):
    """What a batch says of its transitions, for the check that it is right.

    Attributes:
        achieved: (B, G) goals that the steps achieved.
        desired: (B, G) goals that were asked for.
        rewards: (B,) what the steps earned.
    """

    achieved: Floats
    desired: Floats
    rewards: Floats


class Contender(ABC):
    """A buffer that relabels four transitions for every original one, by the strategy ``future``.

    Attributes:
        name: Of the library.
        setting: How it is configured, where that is not obvious.
        rows_a_transition: Rows that it stores for each transition.

    Args:
        capacity: Rows that it stores.
    """

    name: str
    setting: str = ""
    rows_a_transition = 1

    @abstractmethod
    def __init__(self, capacity: int) -> None: ...

    @abstractmethod
    def steps(self, episode: Episode) -> list[Any]:
        """Return an episode's steps in the form in which `add_step` takes them."""

    @abstractmethod
    def add_step(self, step: Any) -> None:
        """Add one step; the last one ends its episode."""

    def whole(self, episode: Episode) -> Any:
        """Return an episode in the form in which `add_whole` takes it."""
        return self.steps(episode)

    def add_whole(self, whole: Any) -> None:
        """Add a complete episode in the quickest way that the library documents."""
        for step in whole:
            self.add_step(step)

    @abstractmethod
    def sample(self, batch_size: int) -> Any:
        """Draw a batch."""

    @abstractmethod
    def rows(self, batch: Any) -> Rows:
        """Return what a batch says of its transitions."""

    def fill(self, stored: int, episodes: list[Episode]) -> None:
        """Add the episodes in turn until there are ``stored`` rows."""
        wholes = [self.whole(episode) for episode in episodes]
        for i in range(stored // (HORIZON * self.rows_a_transition)):
            self.add_whole(wholes[i % len(wholes)])


def check_relabeling(contender: Contender, batch_size: int = 256, batches: int = 40) -> float:
    """Return the relabeled share of some batches.

    Raises:
        RuntimeError: It is not four fifths, a new goal was not achieved later in the episode, or a reward is
            not that of the goals; then it makes no sense to compare the time.
    """
    samples = [contender.rows(contender.sample(batch_size)) for _ in range(batches)]
    achieved, desired, rewards = (np.concatenate(parts) for parts in zip(*samples, strict=True))
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
