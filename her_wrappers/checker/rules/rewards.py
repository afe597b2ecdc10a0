"""Rules GE1xx: step() must use compute_reward, which must be a pure function and return numbers."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Iterator

import numpy as np

from her_wrappers.checker.comparing import close, show
from her_wrappers.checker.evidence import REWARD_NEEDS, Evidence, rule
from her_wrappers.checker.goal_calls import ARGUMENTS, CallResult, between, flat, reward_number
from her_wrappers.checker.records import OUTCOME, StepRecord, as_array
from her_wrappers.rules import Violation

ROUNDING = 1e-3
"""Differences up to this share of the largest reward count as rounding, such as to half precision."""

NUDGE = 1e-2
"""Achieved goals are moved by this share of the distance to the goal, to see if the reward changes."""

REWARD_VALUE_RULES = ("GE101", "GE103", "GE106", "GE119", "GE121", "GE202", "GE205")
"""Rules that compare values of ``compute_reward``; errors in this function can cause their findings."""

SUCCESS_RULES = ("GE115", "GE204", "GE207")
"""Rules that use rewards to decide whether a goal is reached."""


@rule(
    "GE101",
    "reward-mismatch",
    meaning="The reward of a step differs from compute_reward for the goals and the info of that step.",
    fix="in step(), call compute_reward with the new achieved_goal; put other values that it needs into info",
    needs=REWARD_NEEDS,
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
    """The reward of a step must equal the result of compute_reward for the goals and info of that step."""
    mismatches = [mismatch for mismatch in _mismatches(evidence) if not _is_rounding(evidence, *mismatch)]
    cause = likely_cause(evidence, mismatches) if mismatches else ""
    if evidence.vector and evidence.vector.has_copied_functions:
        copied = "compute_reward belongs to a new environment, without the attributes set by set_attr"
        cause = f"{cause}; {copied}" if cause else copied
    for step, result in mismatches:
        computed = f"compute_reward returns {show(result.value)} for the same goals"
        message = f"step() returned reward {show(step.reward)}, but {computed} and info {show(step.info)}"
        yield Violation(f"{message}; {cause}" if cause else message, step.place)


@rule(
    "GE103",
    "reward-rounding",
    "warning",
    meaning="step() and compute_reward differ by rounding, or decide differently at the success threshold.",
    fix="compute the reward from the same arrays that the observation contains",
    needs=REWARD_NEEDS,
    wrong="reward = self.compute_reward(position_in_float64, self.goal, {})",
    right='reward = self.compute_reward(observation["achieved_goal"], observation["desired_goal"], {})',
)
def reward_rounding(evidence: Evidence) -> Iterator[Violation]:
    """Rewards must be computed from the goals in the observation, not from more precise values."""
    for step, result in _mismatches(evidence):
        if _is_rounding(evidence, step, result):
            computed = f"compute_reward returns {show(result.value)} for the observed goals"
            yield Violation(f"step() returned reward {show(step.reward)}, but {computed}", step.place)


def _mismatches(evidence: Evidence) -> list[tuple[StepRecord, CallResult]]:
    """Return the steps whose reward differs from compute_reward, with the result of compute_reward."""
    return [
        (step, result)
        for step, result in zip(evidence.steps, evidence.recomputed, strict=True)
        if result.number is not None and not close(reward_number(step.reward), result.number)
    ]


def _is_rounding(evidence: Evidence, step: StepRecord, result: CallResult) -> bool:
    """Whether rounding of rewards or achieved goals explains why the step reward differs from ``result``."""
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


def likely_cause(evidence: Evidence, mismatches: list[tuple[StepRecord, CallResult]]) -> str:
    """Return the likely cause of differences between step() and compute_reward, or an empty text."""
    rewards = np.array([reward_number(step.reward) for step, _ in mismatches])
    computed = np.array([result.number for _, result in mismatches])
    if evidence.reward is not None and all(
        close(
            reward,
            evidence.reward(step.before["achieved_goal"], step.observation["desired_goal"], step.info).number,
        )
        for reward, (step, _) in zip(rewards[:10].tolist(), mismatches, strict=False)
    ):
        return "the reward of step() fits the previous achieved goal"
    if len(mismatches) < 2:
        return ""
    matches = len(evidence.steps) - len(mismatches)
    swaps_values = evidence.is_sparse and all(
        any(close(reward, value) for value in evidence.reward_values) for reward in rewards.tolist()
    )
    if swaps_values and matches >= len(mismatches):
        return f"step() may decide success by another threshold: {matches} rewards match"
    offsets = rewards - computed
    fits = [f"offset {show(offsets[0])}"] if _all_equal(offsets) else []
    # Equal rewards, as in a sparse task without success, fit an offset and a factor; a factor of 0 says less.
    if computed.all() and (rewards.all() or not fits) and _all_equal(rewards / computed):
        fits.append(f"factor {show(rewards[0] / computed[0])}")
    return f"all wrong rewards differ by the constant {' or '.join(fits)}" if fits else ""


def _all_equal(values: np.ndarray) -> bool:
    return close(values, np.full(len(values), values[0]))


@rule(
    "GE109",
    "reward-mutates-input",
    meaning="A goal function changes its arguments in place, which corrupts the data of a replay buffer.",
    fix="write to a new array",
    needs=REWARD_NEEDS,
    passive=True,
    implies=("GE111", "GE122", "GE301"),
    wrong="""
achieved_goal -= desired_goal
return -np.linalg.norm(achieved_goal, axis=-1)""",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_mutates_input(evidence: Evidence) -> Iterator[Violation]:
    """A goal function must not change its arguments."""
    for function in evidence.functions:
        of = "" if function is evidence.reward else f" of {function.name}"
        batches = (result for _, result in function.batch_results)
        for result in [*function.step_results, *function.pair_results, *batches]:
            if result.mutated_argument:
                subject = f"{result.mutated_argument}{of}"
                yield Violation(f"{function.name} changed this argument in place", subject=subject)


@rule(
    "GE110",
    "reward-depends-on-state",
    meaning="compute_reward later returns other rewards for the same arguments, or ignores desired_goal.",
    fix="use only the arguments, and desired_goal itself instead of values in info that depend on it",
    needs=("later",),
    implies=(*REWARD_VALUE_RULES, *SUCCESS_RULES, "GE118"),
    wrong="return -np.linalg.norm(achieved_goal - self.goal, axis=-1)",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_depends_on_state(evidence: Evidence) -> Iterator[Violation]:
    """The reward must depend on the arguments only, and must change with desired_goal."""
    if evidence.reward is not None and evidence.reward.changes:
        yield Violation(evidence.reward.first_change)
    elif _ignores_goal(evidence):
        cause = "; it is read from info, which belongs to the recorded goal" if _reads_info(evidence) else ""
        yield Violation(f"the reward is the same for different desired goals{cause}")


def _ignores_goal(evidence: Evidence) -> bool:
    """Whether the reward never changes with the desired goal, if achieved goal and info stay the same."""
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
    """Whether the reward of the same two goals changes if the info of another step is passed."""
    if evidence.reward is None or not evidence.pairs:
        return False
    pair, first = evidence.pairs[0], evidence.pair_results[0].number
    numbers = (evidence.reward(pair.achieved, pair.desired, step.info).number for step in evidence.steps)
    return first is not None and any(number is not None and not close(number, first) for number in numbers)


@rule(
    "GE111",
    "reward-nondeterministic",
    meaning="Repeated calls of a goal function with the same arguments return different values.",
    fix="remove the randomness from the function",
    needs=("later",),
    implies=("GE112", "GE116", "GE209"),
    wrong="return -distance + self.np_random.normal(0, 0.01)",
    right="return -distance",
)
def reward_nondeterministic(evidence: Evidence) -> Iterator[Violation]:
    """A goal function must return equal results for equal arguments."""
    for function in evidence.functions:
        repeated = itertools.chain.from_iterable(function.repeated_results)
        for first, again in zip(itertools.cycle(function.pair_results), repeated, strict=False):
            if not first.agrees_with(again):
                yield Violation(f"{function.name} {first.outcome}, but the same call again {again.outcome}")


@rule(
    "GE112",
    "reward-side-effect",
    meaning="Calling a goal function changes the following steps of the environment.",
    fix="do not write to attributes or draw random numbers in the function",
    needs=(*REWARD_NEEDS, "replica"),
    implies=("GE110", "GE401"),
    wrong="""
self.last_distance = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
return -self.last_distance""",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_side_effect(evidence: Evidence) -> Iterator[Violation]:
    """Calls of goal functions must not change the following steps of the environment."""
    for function in evidence.functions:
        found = function.side_effect
        if found is not None:
            values = f"{show(found.repeated)} after calls of {function.name}, but {show(found.original)}"
            yield Violation(f"the value is {values} without these calls", found.place, found.path)


@rule(
    "GE114",
    "reward-not-finite",
    meaning="compute_reward or step() returns a reward that is NaN, infinite or not a number.",
    fix="avoid division by 0 and log(0), which equal goals can cause; return a number in every case",
    needs=REWARD_NEEDS,
    passive=True,
    implies=("GE110",),
    wrong="return -np.log(np.linalg.norm(achieved_goal - desired_goal, axis=-1))",
    right="return -np.log(1e-3 + np.linalg.norm(achieved_goal - desired_goal, axis=-1))",
)
def reward_not_finite(evidence: Evidence) -> Iterator[Violation]:
    """Rewards must be finite numbers, also if both goals are equal."""
    for step, result in zip(evidence.steps, evidence.recomputed, strict=True):
        if not result.is_finite:
            yield Violation(f"compute_reward {result.outcome} for the goals of this step", step.place)
    for pair, result in zip(evidence.pairs, evidence.pair_results, strict=True):
        if not result.is_finite:
            goals = "two equal goals" if pair.is_self else "relabeled goals"
            yield Violation(f"compute_reward {result.outcome} for {goals}")
    for step in evidence.steps:
        if not math.isfinite(reward_number(step.reward)):
            yield Violation(f"step() returned reward {show(step.reward)}", step.place, "reward of step()")


@rule(
    "GE123",
    "step-values-not-scalar",
    "warning",
    meaning="step() returns a reward or a flag as an array of shape (1,), which vector environments reject.",
    fix="return float(reward), bool(terminated) and bool(truncated)",
    needs=("steps",),
    passive=True,
    wrong="return observation, np.array([reward]), terminated, truncated, info",
    right="return observation, float(reward), terminated, truncated, info",
)
def step_values_not_scalar(evidence: Evidence) -> Iterator[Violation]:
    """The reward and the flags of a single environment must be scalars."""
    for step in evidence.steps:
        for name in OUTCOME:
            value = getattr(step, name)
            if shape := as_array(value).shape:
                message = f"step() returned {show(value)} of shape {shape}, not a scalar"
                yield Violation(message, step.place, name)


@rule(
    "GE117",
    "reward-signature",
    "info",
    meaning="The parameters of compute_reward are not named achieved_goal, desired_goal and info, so calls "
    "by keyword fail.",
    fix="rename the parameters",
    needs=REWARD_NEEDS,
    wrong="def compute_reward(self, achieved_goal, goal, info):",
    right="def compute_reward(self, achieved_goal, desired_goal, info):",
)
def reward_signature(evidence: Evidence) -> Iterator[Violation]:
    """The parameters of compute_reward must be named achieved_goal, desired_goal and info."""
    if evidence.reward is None:
        return
    try:
        parameters = inspect.signature(evidence.reward.function).parameters
    except (TypeError, ValueError):
        return  # a builtin function without a signature takes arguments by position only
    names = [name for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_POSITIONAL]
    if names[:3] != list(ARGUMENTS[: len(names)]):
        yield Violation(f"compute_reward has the parameters ({', '.join(names)})")
