"""Pairs of goals to relabel with: reached, not reached, and close to the threshold of success.

Recorded pairs of a sparse task are all failures and prove nothing, so achieved goals are used as desired
goals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.checker.goals import are_real, between, stack
from her_wrappers.checker.values import close
from her_wrappers.trees import map_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from her_wrappers.checker.probe import Probe
    from her_wrappers.checker.rollout import StepRecord

SOURCES = 12
"""Number of steps whose goals are used."""

EXTREMES_FROM = 500
"""Number of steps whose goals are searched for extreme values."""

GOALS = ("achieved_goal", "desired_goal")

THRESHOLDS = 3
"""Number of steps whose success threshold is searched for."""


@dataclass(frozen=True, eq=False, slots=True)
class Pair:
    """Two goals to compute a reward of."""

    achieved: Any
    desired: Any
    info: Any
    is_self: bool = False  # the desired goal is the achieved one


def relabeled_pairs(steps: Sequence[StepRecord], reward: Probe, rng: np.random.Generator) -> list[Pair]:
    """Choose pairs of goals from a rollout.

    Args:
        steps: The steps, at least one.
        reward: Probe of ``compute_reward``, for the threshold of success.
        rng: Generator of the random choices.
    """
    spread = np.unique(np.linspace(0, len(steps) - 1, SOURCES).astype(int))
    sources = [steps[i] for i in spread]
    others = [steps[i] for i in rng.integers(len(steps), size=len(sources))]
    pairs = [pair for step, other in zip(sources, others, strict=True) for pair in _pairs_of(step, other)]
    thresholds = [pair for step in sources for pair in _at_threshold(step, reward)][: 2 * THRESHOLDS]
    mixed = pairs[4:] + thresholds
    return pairs[:4] + [mixed[i] for i in rng.permutation(len(mixed))]


def extreme_pairs(steps: Sequence[StepRecord]) -> list[Pair]:
    """Return the least and the greatest recorded value of each part of the goals as pairs, in both orders."""
    spread = np.unique(np.linspace(0, len(steps) - 1, EXTREMES_FROM).astype(int))
    observations = [steps[i].observation for i in spread]
    goals = stack([observation[key] for observation in observations for key in GOALS])
    least, greatest = (map_tree(partial(_reduce, of), goals) for of in (np.min, np.max))
    info = steps[0].info
    return [Pair(least, greatest, info), Pair(greatest, least, info)]


def _reduce(function: Callable[..., Any], leaf: Any) -> Any:
    return function(leaf, axis=0)


def _pairs_of(step: StepRecord, other: StepRecord) -> Iterator[Pair]:
    achieved = step.observation["achieved_goal"]
    yield Pair(achieved, achieved, step.info, is_self=True)
    yield Pair(achieved, other.observation["desired_goal"], step.info)
    yield Pair(achieved, other.observation["achieved_goal"], step.info)
    yield Pair(achieved, step.observation["desired_goal"], step.info)


def _at_threshold(step: StepRecord, reward: Probe) -> Iterator[Pair]:
    """Yield a pair just inside and one just outside of success, where there is a threshold."""
    achieved, desired = step.observation["achieved_goal"], step.observation["desired_goal"]
    if not (are_real(achieved) and are_real(desired)):
        return
    fraction = threshold(achieved, desired, step.info, reward)
    if fraction is not None:
        for side in (0.999, 1.001):
            yield Pair(achieved, between(achieved, desired, side * fraction), step.info)


def threshold(achieved: Any, desired: Any, info: Any, reward: Probe) -> float | None:
    """Find how far from the achieved goal to the desired one the reward drops, by bisection.

    Returns:
        A fraction of the way, or None where the rewards at both ends and in the middle are not those of a
        sparse task.
    """

    def at(fraction: float) -> float | None:
        return reward(achieved, between(achieved, desired, fraction), info).number

    near, far = at(0.0), at(1.0)
    if near is None or far is None or close(near, far):
        return None
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        number = at(middle)
        if number is None or not (close(number, near) or close(number, far)):
            return None
        low, high = (middle, high) if close(number, near) else (low, middle)
    return high
