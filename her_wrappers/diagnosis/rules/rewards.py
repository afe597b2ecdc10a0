"""Rules GD3xx: the rewards carry no information, or the wrong information."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from her_wrappers.diagnosis.facts import Facts, rule
from her_wrappers.rules import Violation


@rule(
    "GD302",
    fix="use rewards of -1 and 0; or do not clip targets (--no-clip-targets)",
    threshold="any reward outside [-1, 0]: the value of a success would be clipped away",
    source="clipping of targets: arXiv 1802.09464, appendix A",
    needs=("episode", "clip_targets"),
)
def rewards_outside_clip(facts: Facts) -> Iterator[Violation]:
    """Targets are clipped to the returns of rewards in [-1, 0], but rewards lie outside."""
    low, high = float(facts.rewards.min()), float(facts.rewards.max())
    if low < -1 or high > 0:
        yield Violation(f"rewards range from {low:.4g} to {high:.4g}, but targets are clipped for [-1, 0]")


@rule(
    "GD303",
    fix="record or train with one reward_type; a buffer must not be filled from both",
    threshold="at least 5 % of the episodes of each kind; dense values of -0.1 and sparse values of -1 "
    "contradict each other in one critic",
    needs=("episodes",),
    implies=("GD302",),
)
def dense_and_sparse_mixed(facts: Facts) -> Iterator[Violation]:
    """Some episodes have dense rewards, and some have sparse rewards."""
    rounded = np.round(facts.rewards, 6)
    is_sparse = np.logical_and.reduceat(np.isin(rounded, (-1, 0, 1)), facts.offsets[:-1])
    found = float(is_sparse.mean())
    if 0.05 <= found <= 0.95:
        yield Violation(
            f"{found:.1%} of {len(facts)} episodes have only rewards of -1, 0 or 1, the others do not"
        )


@rule(
    "GD304",
    fix="change the sign: minus the distance, or -1 for a missed and 0 for a reached goal",
    threshold="a lower mean reward of successes than of other steps, if rewards rise with the distance; a "
    "correlation of reward and distance above 0.5; or two rewards, of which the higher one is given at "
    "larger distances only",
    needs=("episode",),
    implies=("GD203", "GD302", "GD507"),
)
def reward_prefers_misses(facts: Facts) -> Iterator[Violation]:
    """Rewards are higher where goals are missed or far away: the sign of the reward is wrong."""
    if facts.has_flags and 0 < facts.flags.sum() < len(facts.flags):
        reached = float(facts.rewards[facts.flags > 0].mean())
        missed = float(facts.rewards[facts.flags == 0].mean())
        if reached < missed and np.corrcoef(facts.rewards, facts.distances)[0, 1] > 0:  # not a wrong flag
            yield Violation(
                f"the mean reward is {reached:.3g} in steps with a success, and {missed:.3g} in other steps"
            )
            return
    if facts.num_rewards == 2 and not facts.has_flags:
        is_high = facts.rewards == facts.rewards.max()
        near, far = float(facts.distances[~is_high].max()), float(facts.distances[is_high].min())
        if near <= far:
            yield Violation(
                f"the reward is {facts.rewards.max():g} at distances of at least {far:.3g} to the goal, and "
                f"{facts.rewards.min():g} at smaller ones"
            )
    if facts.num_rewards > 2 and np.ptp(facts.distances) > 0:
        correlation = float(np.corrcoef(facts.rewards, facts.distances)[0, 1])
        if correlation > 0.5:
            yield Violation(f"rewards and distances to the goal have a correlation of {correlation:.2f}")
