"""GE101, GE103: the reward of a step is the value of compute_reward for its goals and info."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.checker.goals import between
from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import close, show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.probe import CallResult
    from her_wrappers.checker.rollout import StepRecord

ROUNDING = 1e-3
"""Largest difference that counts as rounding, such as to half precision, as a share of the largest reward."""

NUDGE = 1e-2
"""Share of the way to the desired goal by which achieved goals move, to find decisions at the threshold."""


@rule(
    "GE101",
    "reward-mismatch",
    "error",
    meaning="The reward of a step differs from compute_reward for the goals and the info of that step.",
    fix="in step(), call compute_reward with the new achieved_goal; put other values that it needs into info",
    needs=("reward",),
    passive=True,
    implies=("GE103", "GE202", "GE205", "GE207"),
    wrong="""
reward = self.compute_reward(self._achieved_goal(), self.goal, {})
self._move(action)""",
    right="""
self._move(action)
reward = self.compute_reward(self._achieved_goal(), self.goal, {})""",
)
def reward_mismatch(evidence: Evidence) -> Iterator[Violation]:
    """Recorded and relabeled transitions get their rewards from the same function."""
    mismatches = [mismatch for mismatch in _mismatches(evidence) if not _is_rounding(evidence, *mismatch)]
    cause = _likely_cause(evidence, mismatches) if mismatches else ""
    for step, result in mismatches:
        expected = f"reward {show(result.value)} from compute_reward with info {show(step.info)}"
        yield Violation(show(step.reward), expected, step.place, hint=cause)


@rule(
    "GE103",
    "reward-rounding",
    "warning",
    meaning="step() and compute_reward differ by rounding, or decide differently at the success threshold.",
    fix="compute the reward from the same arrays that the observation contains",
    needs=("reward",),
    wrong="reward = self.compute_reward(position_in_float64, self.goal, {})",
    right='reward = self.compute_reward(observation["achieved_goal"], observation["desired_goal"], {})',
)
def reward_rounding(evidence: Evidence) -> Iterator[Violation]:
    """Rewards are computed from the values that the agent observes, not from more precise ones."""
    for step, result in _mismatches(evidence):
        if _is_rounding(evidence, step, result):
            expected = f"reward {show(result.value)} from compute_reward"
            yield Violation(show(step.reward), expected, step.place)


def reward_number(reward: Any) -> float:
    """Return the reward of a step as a float; NaN if it is not a number."""
    if isinstance(reward, float):
        return reward
    try:
        return float(np.asarray(reward, dtype=np.float64).reshape(-1)[0])
    except (IndexError, TypeError, ValueError):
        return np.nan


def _mismatches(evidence: Evidence) -> list[tuple[StepRecord, CallResult]]:
    """Return the steps whose reward differs from compute_reward, with the result of compute_reward."""
    return [
        (step, result)
        for step, result in zip(evidence.steps, evidence.recomputed, strict=True)
        if result.number is not None and not close(reward_number(step.reward), result.number)
    ]


def _is_rounding(evidence: Evidence, step: StepRecord, result: CallResult) -> bool:
    """Whether a mismatch is as small as rounding, or disappears if the achieved goal moves a little."""
    reward, computed = reward_number(step.reward), result.number
    if computed is None or evidence.reward is None or not np.isfinite(reward):
        return False
    if abs(reward - computed) <= ROUNDING * evidence.reward_scale:
        return True
    achieved, desired = step.observation["achieved_goal"], step.observation["desired_goal"]
    shifted = (
        evidence.reward(between(achieved, desired, fraction), desired, step.info).number
        for fraction in (-NUDGE, NUDGE)
    )
    return any(number is not None and close(number, reward) for number in shifted)


def _likely_cause(evidence: Evidence, mismatches: list[tuple[StepRecord, CallResult]]) -> str:
    """Return the likely cause of the mismatches, or an empty text."""
    if _uses_previous_goal(evidence, mismatches):
        return "compute_reward returns this value for the previous achieved goal"
    if len(mismatches) < 2:
        return ""
    if _is_other_decision(evidence, mismatches):
        matches = len(evidence.steps) - len(mismatches)
        return f"step() may decide success by another rule, such as another threshold: {matches} steps match"
    rewards = np.array([reward_number(step.reward) for step, _ in mismatches])
    computed = np.array([result.number for _, result in mismatches])
    offsets = rewards - computed
    fits = [f"offset {show(offsets[0])}"] if _all_equal(offsets) else []
    # Equal rewards, such as those of a sparse task without a success, fit both; a factor of 0 says less.
    if computed.all() and (rewards.all() or not fits) and _all_equal(rewards / computed):
        fits.append(f"factor {show(rewards[0] / computed[0])}")
    return f"all differ by the constant {' or '.join(fits)}" if fits else ""


def _all_equal(values: np.ndarray) -> bool:
    return close(values, np.full(len(values), values[0]))


def _is_other_decision(evidence: Evidence, mismatches: list[tuple[StepRecord, CallResult]]) -> bool:
    """Whether rewards are sparse, and in at most half of the steps ``step`` returned the opposite reward."""
    if not evidence.is_sparse or 2 * len(mismatches) > len(evidence.steps):
        return False
    rewards = [reward_number(step.reward) for step, _ in mismatches]
    return all(any(close(reward, value) for value in evidence.reward_values) for reward in rewards)


def _uses_previous_goal(evidence: Evidence, mismatches: list[tuple[StepRecord, CallResult]]) -> bool:
    if evidence.reward is None:
        return False
    return all(
        close(
            reward_number(step.reward),
            evidence.reward(step.before["achieved_goal"], step.observation["desired_goal"], step.info).number
            or 0.0,
        )
        for step, _ in mismatches[:10]
    )
