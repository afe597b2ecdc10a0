"""GE10x, GE11x: step() and compute_reward give the same reward, and it depends on the arguments only."""

from __future__ import annotations

import inspect
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.checker.goals import between, flat
from her_wrappers.checker.probe import describe_answer, same_answer
from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import close, show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.probe import Answer
    from her_wrappers.checker.rollout import StepRecord

ROUNDING = 1e-3
"""Half precision and rounding to three decimals make differences up to this share of the largest reward."""

NUDGE = 1e-2
"""A decision that this share of the way to the goal turns was taken at the threshold."""


@rule(
    "GE101",
    "reward-mismatch",
    "error",
    meaning="The reward of a step is not what compute_reward gives for the goals and the info of that step.",
    fix="compute the reward after the move, by compute_reward alone; pass what else it needs through info",
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
    """Original and relabeled transitions are rewarded alike."""
    mismatches = [mismatch for mismatch in _mismatches(evidence) if not _is_rounding(evidence, *mismatch)]
    cause = _cause(evidence, mismatches) if mismatches else ""
    for step, answer in mismatches:
        yield Violation(
            f"{show(step.reward)}",
            f"reward {show(answer.value)} from compute_reward with info {show(step.info)}",
            step.place,
            hint=cause,
        )


@rule(
    "GE103",
    "reward-rounding",
    "warning",
    meaning="step and compute_reward differ by rounding, or decide differently at the threshold.",
    fix="compute the reward from the very arrays that the observation returns",
    needs=("reward",),
    wrong="reward = self.compute_reward(position_in_float64, self.goal, {})",
    right='reward = self.compute_reward(observation["achieved_goal"], observation["desired_goal"], {})',
)
def reward_rounding(evidence: Evidence) -> Iterator[Violation]:
    """Rewards come from what the agent sees, not from something more precise."""
    for step, answer in _mismatches(evidence):
        if _is_rounding(evidence, step, answer):
            yield Violation(
                f"{show(step.reward)}", f"reward {show(answer.value)} from compute_reward", step.place
            )


@rule(
    "GE109",
    "reward-mutates-input",
    "error",
    meaning="compute_reward changes its arguments in place, which alters the data of a replay buffer.",
    fix="work on a new array",
    needs=("reward",),
    passive=True,
    implies=(
        "GE101",
        "GE103",
        "GE106",
        "GE110",
        "GE111",
        "GE112",
        "GE119",
        "GE121",
        "GE122",
        "GE202",
        "GE205",
        "GE301",
        "GE302",
    ),
    wrong="""
achieved_goal -= desired_goal
return -np.linalg.norm(achieved_goal, axis=-1)""",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_mutates_input(evidence: Evidence) -> Iterator[Violation]:
    """Arguments are left as they were."""
    for answer in [*evidence.recomputed, *evidence.rows, *(answer for _, answer in evidence.batch_answers)]:
        if answer.mutated:
            yield Violation("changed values", "the argument as it was", subject=answer.mutated)


@rule(
    "GE110",
    "reward-depends-on-state",
    "error",
    meaning="compute_reward answers differently after other steps, or does not look at desired_goal.",
    fix="use only the arguments",
    needs=("later",),
    implies=(
        "GE101",
        "GE103",
        "GE106",
        "GE115",
        "GE118",
        "GE119",
        "GE121",
        "GE202",
        "GE204",
        "GE205",
        "GE207",
    ),
    wrong="return -np.linalg.norm(achieved_goal - self.goal, axis=-1)",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_depends_on_state(evidence: Evidence) -> Iterator[Violation]:
    """The reward is a function of the two goals and the info."""
    for first, later in zip(evidence.rows, evidence.later_rows or [], strict=True):
        if not same_answer(first, later):
            yield Violation(
                describe_answer(later), f"{describe_answer(first)} again, after further steps and a reset"
            )
            return
    for change in evidence.state_changes:
        if change.function == "compute_reward":
            got = f"{describe_answer(change.later)} after a reset"
            yield Violation(got, f"{describe_answer(change.first)} as at {change.place}")
            return
    if _ignores_goal(evidence):
        hint = (
            "the reward comes from info, which holds that of the recorded goal"
            if _reads_info(evidence)
            else ""
        )
        yield Violation(
            "one reward for all of them",
            "rewards that depend on desired_goal",
            hint=hint * _reads_info(evidence),
        )


def _ignores_goal(evidence: Evidence) -> bool:
    """Whether no achieved goal with one info ever got two different rewards for different desired goals."""
    rewards: dict[tuple[bytes, int], list[float]] = {}
    goals: dict[tuple[bytes, int], set[bytes]] = {}
    for pair, row in zip(evidence.pairs, evidence.rows, strict=True):
        if row.number is None or not np.isfinite(row.number):
            return False
        key = flat(pair.achieved).tobytes(), id(pair.info)
        rewards.setdefault(key, []).append(row.number)
        goals.setdefault(key, set()).add(flat(pair.desired).tobytes())
    asked = [key for key, wanted in goals.items() if len(wanted) > 1]
    return bool(asked) and all(close(min(rewards[key]), max(rewards[key])) for key in asked)


def _reads_info(evidence: Evidence) -> bool:
    """Whether the infos of other steps change the rewards of the same goals."""
    if evidence.reward is None:
        return False
    rows = list(zip(evidence.pairs, evidence.rows, strict=True))
    for (pair, row), (other, _) in itertools.product(rows[:1], rows):
        answer = evidence.reward(pair.achieved, pair.desired, other.info)
        if answer.number is not None and row.number is not None and not close(answer.number, row.number):
            return True
    return False


@rule(
    "GE111",
    "reward-nondeterministic",
    "error",
    meaning="The same call of compute_reward gives two answers.",
    fix="make it a pure function: no randomness in rewards",
    needs=("later",),
    implies=(
        "GE101",
        "GE103",
        "GE106",
        "GE110",
        "GE112",
        "GE115",
        "GE116",
        "GE119",
        "GE121",
        "GE202",
        "GE205",
        "GE209",
        "GE401",
        "GE402",
        "GE403",
    ),
    wrong="return -distance + self.np_random.normal(0, 0.01)",
    right="return -distance",
)
def reward_nondeterministic(evidence: Evidence) -> Iterator[Violation]:
    """Two calls at once give one answer."""
    answers = itertools.chain.from_iterable(evidence.rows_again)
    for first, again in zip(itertools.cycle(evidence.rows), answers, strict=False):
        if not same_answer(first, again):
            yield Violation(describe_answer(again), f"{describe_answer(first)} again from the same call")


@rule(
    "GE112",
    "reward-side-effect",
    "error",
    meaning="Calling compute_reward changes the steps that follow.",
    fix="make it a pure function: write to no attribute, draw no random number",
    needs=("reward", "replica"),
    implies=("GE101", "GE103", "GE106", "GE110", "GE401"),
    wrong="""
self.last_distance = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
return -self.last_distance""",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_side_effect(evidence: Evidence) -> Iterator[Violation]:
    """Calls of compute_reward do not change the steps that follow."""
    found = evidence.side_effect
    if found is not None:
        yield Violation(
            show(found.there), f"{show(found.here)} as without the calls", found.place, found.part
        )


@rule(
    "GE114",
    "reward-not-finite",
    "error",
    meaning="compute_reward gives NaN, infinity or no number at all.",
    fix="guard divisions and logarithms, above all where the goals are equal; return a number on every path",
    needs=("reward",),
    passive=True,
    implies=(
        "GE101",
        "GE103",
        "GE106",
        "GE110",
        "GE115",
        "GE119",
        "GE121",
        "GE202",
        "GE204",
        "GE205",
        "GE207",
    ),
    wrong="return -np.log(np.linalg.norm(achieved_goal - desired_goal, axis=-1))",
    right="return -np.log(1e-3 + np.linalg.norm(achieved_goal - desired_goal, axis=-1))",
)
def reward_not_finite(evidence: Evidence) -> Iterator[Violation]:
    """Rewards are finite numbers, for a goal and itself too."""
    for step, answer in zip(evidence.steps, evidence.recomputed, strict=True):
        if _not_finite(answer):
            yield Violation(show(answer.value), "a finite reward", step.place)
    for pair, row in zip(evidence.pairs, evidence.rows, strict=True):
        if _not_finite(row):
            goals = "a goal and itself" if pair.is_self else "relabeled goals"
            yield Violation(show(row.value), f"a finite reward for {goals}")
    for step in evidence.steps:
        if not math.isfinite(_number(step.reward)):
            yield Violation(show(step.reward), "a finite reward", step.place, "reward of step()")


@rule(
    "GE117",
    "reward-signature",
    "info",
    meaning="The parameters are not named achieved_goal, desired_goal and info; calls by keyword fail.",
    fix="rename the parameters",
    needs=("reward",),
    wrong="def compute_reward(self, achieved_goal, goal, info):",
    right="def compute_reward(self, achieved_goal, desired_goal, info):",
)
def reward_signature(evidence: Evidence) -> Iterator[Violation]:
    """The names are those of the goal interface."""
    expected = ["achieved_goal", "desired_goal", "info"]
    if evidence.reward is None:
        return
    try:
        parameters = inspect.signature(evidence.reward.function).parameters
    except (TypeError, ValueError):
        return  # a builtin without a signature takes arguments by position only
    names = [name for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_POSITIONAL]
    if names[:3] != expected[: len(names)]:
        yield Violation(f"({', '.join(names)})", f"parameters ({', '.join(expected)})")


def _mismatches(evidence: Evidence) -> list[tuple[StepRecord, Answer]]:
    """Return the steps whose reward is not what compute_reward gives."""
    return [
        (step, answer)
        for step, answer in zip(evidence.steps, evidence.recomputed, strict=True)
        if answer.number is not None and not close(_number(step.reward), answer.number)
    ]


def _number(reward: Any) -> float:
    if isinstance(reward, float):
        return reward
    try:
        return float(np.asarray(reward, dtype=np.float64).reshape(-1)[0])
    except (IndexError, TypeError, ValueError):
        return np.nan


def _is_rounding(evidence: Evidence, step: StepRecord, answer: Answer) -> bool:
    """Whether a mismatch is as small as rounding, or a tiny change of the achieved goal explains it."""
    reward, computed = _number(step.reward), answer.number
    if computed is None or not np.isfinite(reward):
        return False
    if abs(reward - computed) <= ROUNDING * evidence.reward_scale:
        return True
    goals = step.observation
    shifted = (
        evidence.reward(
            between(goals["achieved_goal"], goals["desired_goal"], fraction), goals["desired_goal"], step.info
        )
        for fraction in (-NUDGE, NUDGE)
        if evidence.reward is not None
    )
    return any(row.number is not None and close(row.number, reward) for row in shifted)


def _cause(evidence: Evidence, mismatches: list[tuple[StepRecord, Answer]]) -> str:
    """Guess what makes the rewards of steps differ from compute_reward's."""
    if _from_previous_goal(evidence, mismatches):
        return "the previous achieved goal explains it"
    if len(mismatches) < 2:
        return ""
    if _decides_otherwise(evidence, mismatches):
        agree = len(evidence.steps) - len(mismatches)
        return f"step() decides on success in another way, such as by another threshold: {agree} steps agree"
    rewards = np.array([_number(step.reward) for step, _ in mismatches])
    computed = np.array([answer.number for _, answer in mismatches])
    if close(rewards - computed, np.full(len(rewards), rewards[0] - computed[0])):
        return f"a constant offset of {show(rewards[0] - computed[0])} explains it"
    if computed.all() and close(rewards / computed, np.full(len(rewards), rewards[0] / computed[0])):
        return f"a constant factor of {show(rewards[0] / computed[0])} explains it"
    return ""


def _decides_otherwise(evidence: Evidence, mismatches: list[tuple[StepRecord, Answer]]) -> bool:
    """Whether at most half of the steps differ, each by having the other of the two values."""
    if not evidence.is_sparse or 2 * len(mismatches) > len(evidence.steps):
        return False
    rewards = [_number(step.reward) for step, _ in mismatches]
    return all(any(close(reward, value) for value in evidence.reward_values) for reward in rewards)


def _from_previous_goal(evidence: Evidence, mismatches: list[tuple[StepRecord, Answer]]) -> bool:
    if evidence.reward is None:
        return False
    return all(
        close(
            _number(step.reward),
            evidence.reward(step.before["achieved_goal"], step.observation["desired_goal"], step.info).number
            or 0.0,
        )
        for step, _ in mismatches[:10]
    )


def _not_finite(answer: Answer) -> bool:
    return answer.error is None and (answer.numbers is None or not np.isfinite(answer.numbers).all())
