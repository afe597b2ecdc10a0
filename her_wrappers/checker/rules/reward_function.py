"""GE109 to GE112, GE114, GE117: compute_reward is a pure function of its arguments and returns numbers."""

from __future__ import annotations

import inspect
import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.goals import flat
from her_wrappers.checker.probe import ARGUMENTS, describe_result, same_result
from her_wrappers.checker.registry import REWARD_VALUE_RULES, SUCCESS_RULES, Violation, rule
from her_wrappers.checker.rules.step_reward import reward_number
from her_wrappers.checker.values import close, show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.probe import CallResult


@rule(
    "GE109",
    "reward-mutates-input",
    "error",
    meaning="compute_reward changes its arguments in place, which corrupts the data of a replay buffer.",
    fix="write to a new array",
    needs=("reward",),
    passive=True,
    implies=(*REWARD_VALUE_RULES, "GE110", "GE111", "GE112", "GE122", "GE301", "GE302"),
    wrong="""
achieved_goal -= desired_goal
return -np.linalg.norm(achieved_goal, axis=-1)""",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_mutates_input(evidence: Evidence) -> Iterator[Violation]:
    """The arguments have the same values after a call as before."""
    batches = (result for _, result in evidence.batch_results)
    for result in [*evidence.recomputed, *evidence.pair_results, *batches]:
        if result.mutated_argument:
            yield Violation("changed values", "an unchanged argument", subject=result.mutated_argument)


@rule(
    "GE110",
    "reward-depends-on-state",
    "error",
    meaning="compute_reward returns other rewards for the same arguments later, or ignores desired_goal.",
    fix="use only the arguments, and desired_goal itself instead of values in info that depend on it",
    needs=("later",),
    implies=(*REWARD_VALUE_RULES, *SUCCESS_RULES, "GE118"),
    wrong="return -np.linalg.norm(achieved_goal - self.goal, axis=-1)",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_depends_on_state(evidence: Evidence) -> Iterator[Violation]:
    """The reward is a function of the two goals and the info alone."""
    for first, later in zip(evidence.pair_results, evidence.later_results or [], strict=True):
        if not same_result(first, later):
            expected = f"{describe_result(first)} again after further steps and a reset"
            yield Violation(describe_result(later), expected)
            return
    for change in evidence.state_changes:
        if change.function == "compute_reward":
            got = f"{describe_result(change.later)} after a reset"
            yield Violation(got, f"{describe_result(change.first)} as at {change.place}")
            return
    if _ignores_goal(evidence):
        hint = "the reward is read from info, which belongs to the recorded goal"
        yield Violation(
            "the same reward for different desired goals",
            "rewards that depend on desired_goal",
            hint=hint if _reads_info(evidence) else "",
        )


def _ignores_goal(evidence: Evidence) -> bool:
    """Whether each achieved goal with its info gets the same reward for all desired goals."""
    rewards: dict[tuple[bytes, int], list[float]] = {}
    goals: dict[tuple[bytes, int], set[bytes]] = {}
    for pair, result in zip(evidence.pairs, evidence.pair_results, strict=True):
        if result.number is None or not np.isfinite(result.number):
            return False
        key = flat(pair.achieved).tobytes(), id(pair.info)
        rewards.setdefault(key, []).append(result.number)
        goals.setdefault(key, set()).add(flat(pair.desired).tobytes())
    compared = [key for key, desired in goals.items() if len(desired) > 1]
    return bool(compared) and all(close(min(rewards[key]), max(rewards[key])) for key in compared)


def _reads_info(evidence: Evidence) -> bool:
    """Whether the infos of other steps change the reward of the same goals."""
    if evidence.reward is None or not evidence.pairs:
        return False
    pair, first = evidence.pairs[0], evidence.pair_results[0].number
    numbers = (evidence.reward(pair.achieved, pair.desired, step.info).number for step in evidence.steps)
    return first is not None and any(number is not None and not close(number, first) for number in numbers)


@rule(
    "GE111",
    "reward-nondeterministic",
    "error",
    meaning="Repeated calls of compute_reward with the same arguments return different rewards.",
    fix="remove the randomness from compute_reward",
    needs=("later",),
    implies=(
        *REWARD_VALUE_RULES, "GE110", "GE112", "GE115", "GE116", "GE209", "GE401", "GE402", "GE403",
    ),
    wrong="return -distance + self.np_random.normal(0, 0.01)",
    right="return -distance",
)  # fmt: skip
def reward_nondeterministic(evidence: Evidence) -> Iterator[Violation]:
    """Equal arguments give equal rewards."""
    repeated = itertools.chain.from_iterable(evidence.repeated_results)
    for first, again in zip(itertools.cycle(evidence.pair_results), repeated, strict=False):
        if not same_result(first, again):
            expected = f"{describe_result(first)} again from the same call"
            yield Violation(describe_result(again), expected)


@rule(
    "GE112",
    "reward-side-effect",
    "error",
    meaning="Calls of compute_reward change the steps that follow.",
    fix="do not write to attributes or draw random numbers in compute_reward",
    needs=("reward", "replica"),
    implies=("GE101", "GE103", "GE106", "GE110", "GE401"),
    wrong="""
self.last_distance = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
return -self.last_distance""",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_side_effect(evidence: Evidence) -> Iterator[Violation]:
    """Steps are the same with and without calls of compute_reward between them."""
    found = evidence.side_effect
    if found is not None:
        expected = f"{show(found.original)} as without calls of compute_reward"
        yield Violation(show(found.repeated), expected, found.place, found.path)


@rule(
    "GE114",
    "reward-not-finite",
    "error",
    meaning="compute_reward or step() returns a reward that is NaN, infinite or not a number.",
    fix="guard divisions and logarithms, above all for equal goals; return a number on every path",
    needs=("reward",),
    passive=True,
    implies=(*REWARD_VALUE_RULES, *SUCCESS_RULES, "GE110"),
    wrong="return -np.log(np.linalg.norm(achieved_goal - desired_goal, axis=-1))",
    right="return -np.log(1e-3 + np.linalg.norm(achieved_goal - desired_goal, axis=-1))",
)
def reward_not_finite(evidence: Evidence) -> Iterator[Violation]:
    """Rewards are finite numbers, also where both goals are equal."""
    for step, result in zip(evidence.steps, evidence.recomputed, strict=True):
        if _is_not_finite(result):
            yield Violation(show(result.value), "a finite reward", step.place)
    for pair, result in zip(evidence.pairs, evidence.pair_results, strict=True):
        if _is_not_finite(result):
            goals = "two equal goals" if pair.is_self else "relabeled goals"
            yield Violation(show(result.value), f"a finite reward for {goals}")
    for step in evidence.steps:
        if not math.isfinite(reward_number(step.reward)):
            yield Violation(show(step.reward), "a finite reward", step.place, "reward of step()")


def _is_not_finite(result: CallResult) -> bool:
    return result.error is None and (result.numbers is None or not np.isfinite(result.numbers).all())


@rule(
    "GE117",
    "reward-signature",
    "info",
    meaning="The parameters of compute_reward are not named achieved_goal, desired_goal and info, so calls "
    "by keyword fail.",
    fix="rename the parameters",
    needs=("reward",),
    wrong="def compute_reward(self, achieved_goal, goal, info):",
    right="def compute_reward(self, achieved_goal, desired_goal, info):",
)
def reward_signature(evidence: Evidence) -> Iterator[Violation]:
    """compute_reward uses the parameter names of the goal interface."""
    if evidence.reward is None:
        return
    try:
        parameters = inspect.signature(evidence.reward.function).parameters
    except (TypeError, ValueError):
        return  # a builtin function without a signature takes arguments by position only
    names = [name for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_POSITIONAL]
    if names[:3] != list(ARGUMENTS[: len(names)]):
        yield Violation(f"({', '.join(names)})", f"parameters ({', '.join(ARGUMENTS)})")
