"""Statistics: what a buffer holds and hands out. Relabeling that goes wrong is silent; numbers tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.replay.arrays import same_rows
from her_wrappers.trees import leaf_arrays

if TYPE_CHECKING:
    from her_wrappers.replay.batch import Batch


@dataclass(frozen=True)
class Statistics:
    """What a buffer holds, and shares and means over rows that it handed out; NaN where there are none.

    Attributes:
        num_transitions: Transitions stored.
        num_episodes: Episodes stored.
        mean_length: Steps of an episode.
        nbytes: Bytes allocated.
        relabeled_share: Rows that are relabeled.
        relabeled_reward: Mean reward of those.
        original_reward: Mean reward of the others.
        terminated_share: Relabeled rows that terminate.
        trivial_share: Relabeled rows whose new goal was achieved before the step already.
        mean_ahead: Transitions from a step to the one that achieved its new goal; 0 is the step itself.
    """

    num_transitions: int
    num_episodes: int
    mean_length: float
    nbytes: int
    relabeled_share: float
    relabeled_reward: float
    original_reward: float
    terminated_share: float
    trivial_share: float
    mean_ahead: float


def describe(batch: Batch, *, num_transitions: int, num_episodes: int, nbytes: int) -> Statistics:
    """Return the statistics of a buffer, with those of a batch from it."""
    rows = batch.relabeled
    return Statistics(
        num_transitions=num_transitions,
        num_episodes=num_episodes,
        mean_length=num_transitions / num_episodes,
        nbytes=nbytes,
        relabeled_share=float(rows.mean()),
        relabeled_reward=_mean(batch.rewards[rows]),
        original_reward=_mean(batch.rewards[~rows]),
        terminated_share=_mean(batch.terminations[rows]),
        trivial_share=_mean(_is_trivial(batch)[rows]),
        mean_ahead=_mean((batch.goal_index - batch.index)[rows]),
    )


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _is_trivial(batch: Batch) -> np.ndarray:
    """Whether the desired goal is achieved before the step, to the last bit, (B,) bool."""
    achieved, desired = (leaf_arrays(batch.observations[key]) for key in ("achieved_goal", "desired_goal"))
    return same_rows(achieved, desired)
