"""Relabeled pairs of goals: reached, not reached, and close to the success threshold.

The recorded pairs of a sparse task are mostly failures, so achieved goals are used as desired goals too.
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
    from collections.abc import Iterator, Sequence

    from her_wrappers.checker.probe import Probe
    from her_wrappers.checker.rollout import StepRecord

NUM_STEPS = 12
"""Largest number of steps whose achieved goals are used."""

NUM_EXTREME_STEPS = 500
"""Largest number of steps whose goals are searched for extreme values."""

GOALS = ("achieved_goal", "desired_goal")

NUM_THRESHOLDS = 3
"""Largest number of steps with pairs on both sides of the success threshold."""


@dataclass(frozen=True, eq=False, slots=True)
class Pair:
    """Arguments of a goal function for one row.

    Attributes:
        achieved: Achieved goal of a step.
        desired: Desired goal, recorded or relabeled.
        info: Info of the step.
        is_self: Whether the desired goal is the achieved goal of the same step.
    """

    achieved: Any
    desired: Any
    info: Any
    is_self: bool = False


def relabeled_pairs(steps: Sequence[StepRecord], reward: Probe, rng: np.random.Generator) -> list[Pair]:
    """Return relabeled pairs from the steps of a rollout.

    Args:
        steps: Steps of the rollout, at least one.
        reward: Probe of ``compute_reward``, for the success threshold.
        rng: Generator of the random choices.
    """
    indices = np.unique(np.linspace(0, len(steps) - 1, NUM_STEPS).astype(int))
    sources = [steps[i] for i in indices]
    others = [steps[i] for i in rng.integers(len(steps), size=len(sources))]
    pairs = [pair for step, other in zip(sources, others, strict=True) for pair in _pairs_of(step, other)]
    thresholds = [pair for step in sources for pair in _at_threshold(step, reward)][: 2 * NUM_THRESHOLDS]
    mixed = pairs[4:] + thresholds
    return pairs[:4] + [mixed[i] for i in rng.permutation(len(mixed))]


def extreme_pairs(steps: Sequence[StepRecord]) -> list[Pair]:
    """Return two pairs of the elementwise minimum and maximum of recorded goals, in both orders.

    Args:
        steps: Steps of the rollout, at least one; the goals of up to 500 of them are searched.
    """
    indices = np.unique(np.linspace(0, len(steps) - 1, NUM_EXTREME_STEPS).astype(int))
    observations = [steps[i].observation for i in indices]
    goals = stack([observation[key] for observation in observations for key in GOALS])
    low, high = (map_tree(partial(reduce, axis=0), goals) for reduce in (np.min, np.max))
    info = steps[0].info
    return [Pair(low, high, info), Pair(high, low, info)]


def _pairs_of(step: StepRecord, other: StepRecord) -> Iterator[Pair]:
    achieved = step.observation["achieved_goal"]
    yield Pair(achieved, achieved, step.info, is_self=True)
    yield Pair(achieved, other.observation["desired_goal"], step.info)
    yield Pair(achieved, other.observation["achieved_goal"], step.info)
    yield Pair(achieved, step.observation["desired_goal"], step.info)


def _at_threshold(step: StepRecord, reward: Probe) -> Iterator[Pair]:
    """Yield a pair just inside and a pair just outside the success threshold, if there is a threshold."""
    achieved, desired = step.observation["achieved_goal"], step.observation["desired_goal"]
    if not (are_real(achieved) and are_real(desired)):
        return
    fraction = threshold(achieved, desired, step.info, reward)
    if fraction is not None:
        for side in (0.999, 1.001):
            yield Pair(achieved, between(achieved, desired, side * fraction), step.info)


def threshold(achieved: Any, desired: Any, info: Any, reward: Probe) -> float | None:
    """Find the success threshold on the way from the achieved goal to the desired goal, by bisection.

    Args:
        achieved: Achieved goal, with float leaves.
        desired: Desired goal of the same structure.
        info: Info of the step.
        reward: Probe of ``compute_reward``.

    Returns:
        The fraction of the way at which the reward changes, or None if the rewards found on the way do not
        have exactly two values.
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
