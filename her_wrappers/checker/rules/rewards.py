"""Rules GE1xx: step() must use compute_reward, which must be a pure function and return numbers."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np

from her_wrappers.checker.comparing import close, show
from her_wrappers.checker.goal_calls import (
    ARGUMENTS,
    CallResult,
    Pair,
    between,
    distance,
    flat,
    reward_number,
)
from her_wrappers.checker.lab import REWARD, REWARD_NEEDS, Lab, rule
from her_wrappers.checker.records import OUTCOME, Divergence, StepRecord, goals_of
from her_wrappers.data.trees import try_as_array
from her_wrappers.rules import Violation

ROUNDING = 1e-3  # rounding changes at most this share of the largest reward, as half precision does
PERIODS = (2 * np.pi, np.pi, 360, 180, 2, 1)  # usual periods of angles, also if they are normalized

Mismatches: TypeAlias = list[tuple[StepRecord, CallResult]]  # steps whose reward differs from compute_reward
NUDGE = 1e-2  # achieved goals are moved by this share of the distance to the goal
# To find components that wrap around: most components of a goal, least jumps from one end of the range to the
# other, least share of states in its middle half, and a small distance for rewards, as a share of the range.
MAX_COMPONENTS, MIN_JUMPS, MIN_BETWEEN, NEAR = 64, 3, 0.1, 0.01
REPETITIONS = 4  # near a threshold, noise changes only half of the results


@rule(
    "GE101",
    fix="in step(), call compute_reward with the new achieved_goal; put other values that it needs into info",
    needs=REWARD_NEEDS,
    passive=True,
    wrong="reward = self.compute_reward(self.position, self.goal, {})  # before self._move(action)",
    right="reward = self.compute_reward(self.position, self.goal, {})  # after self._move(action)",
)
def reward_mismatch(lab: Lab) -> Iterator[Violation]:
    """The reward of a step differs from compute_reward for the goals and the info of that step."""
    mismatches, _ = _mismatches(lab)
    causes = [_likely_cause(lab, mismatches)] if mismatches else []
    owner = getattr(lab.functions[REWARD], "__self__", None)
    if lab.vector_run and isinstance(owner, gym.Env) and not hasattr(lab.env.unwrapped, "envs"):
        causes.append("compute_reward belongs to a new environment, without the attributes set by set_attr")
    for step, result in mismatches:
        computed = f"compute_reward returns {show(result.value)} for the same goals"
        message = f"step() returned reward {show(step.reward)}, but {computed} and info {show(step.info)}"
        yield Violation("; ".join(filter(None, [message, *causes])), step.place)


@rule(
    "GE103",
    severity="warning",
    fix="compute the reward from the same arrays that the observation contains",
    needs=REWARD_NEEDS,
    wrong="reward = self.compute_reward(position_in_float64, self.goal, {})",
    right='reward = self.compute_reward(observation["achieved_goal"], observation["desired_goal"], {})',
)
def reward_rounding(lab: Lab) -> Iterator[Violation]:
    """step() and compute_reward differ by rounding, or decide differently at the success threshold."""
    for step, result in _mismatches(lab)[1]:
        computed = f"compute_reward returns {show(result.value)} for the observed goals"
        yield Violation(f"step() returned reward {show(step.reward)}, but {computed}", step.place)


def _mismatches(lab: Lab) -> tuple[Mismatches, Mismatches]:
    """Return two lists of steps with different rewards: by more than rounding, and by rounding."""
    results = lab.step_results(REWARD)
    sizes = (abs(result.number) for result in results if result.number is not None)
    tolerance = ROUNDING * max(filter(np.isfinite, sizes), default=0.0)
    wrong: Mismatches = []
    rounded: Mismatches = []
    for step, result in zip(lab.steps, results, strict=True):
        reward, computed = reward_number(step.reward), result.number
        if computed is None or close(reward, computed):
            continue
        is_rounded = abs(reward - computed) <= tolerance or _is_reward_nearby(lab, step, reward)
        (rounded if np.isfinite(reward) and is_rounded else wrong).append((step, result))
    return wrong, rounded


def _is_reward_nearby(lab: Lab, step: StepRecord, reward: float) -> bool:
    """Whether compute_reward returns the reward for an achieved goal that is moved slightly."""
    achieved, desired = goals_of(step)
    moved = (between(achieved, desired, fraction) for fraction in (-NUDGE, NUDGE))
    numbers = (lab.call(REWARD, goal, desired, step.info).number for goal in moved)
    return any(number is not None and close(number, reward) for number in numbers)


def _likely_cause(lab: Lab, mismatches: Mismatches) -> str:
    """Return the likely cause of differences between step() and compute_reward, or an empty text."""
    rewards = np.array([reward_number(step.reward) for step, _ in mismatches])
    computed = np.array([result.number for _, result in mismatches])
    before = (
        (step, lab.call(REWARD, step.before["achieved_goal"], goals_of(step)[1], step.info).number)
        for step in (*(step for step, _ in mismatches), *lab.steps)
    )
    is_previous = (each is not None and close(reward_number(step.reward), each) for step, each in before)
    if len(lab.steps) > 1 and all(is_previous):
        return "the reward of step() fits the previous achieved goal"
    if len(mismatches) < 2:
        return ""
    best, matches = lab.success_reward, len(lab.steps) - len(mismatches)
    is_usual = all(any(close(each, value) for value in lab.reward_values) for each in rewards.tolist())
    decides_success = lab.is_sparse and best is not None and is_usual and matches >= len(mismatches)
    if decides_success:
        given = np.array([close(reward_number(step.reward), best) for step in lab.steps])
        distances = np.array([distance(*goals_of(step)) for step in lab.steps])
        if given.any() and distances[given].max() <= distances[~given].min(initial=np.inf):
            return f"step() may decide success by another threshold: {matches} rewards match"
    is_end = all(step.terminated or step.truncated for step, _ in mismatches)
    if is_end and (best is None or not all(close(number, best) for number in computed.tolist())):
        return "all are last steps of episodes, whose observation may be that of the next episode"
    if decides_success:
        both = len(set(rewards.tolist())) > 1 or not given.any()
        kind = "other goals than it returns" if both else "another threshold, or by more than the goals"
        return f"step() may decide success by {kind}: {matches} rewards match"
    relations = {"offset": rewards - computed, "factor": rewards / computed}
    fits = [
        f"{name} {show(values[0])}"
        for name, values in relations.items()
        if np.isfinite(values).all() and close(values, np.full_like(values, values[0]))
    ]
    return f"all wrong rewards differ by the constant {' or '.join(fits)}" if fits else ""


@rule(
    "GE109",
    fix="write to a new array",
    needs=REWARD_NEEDS,
    passive=True,
    wrong="achieved_goal -= desired_goal",
    right="difference = achieved_goal - desired_goal",
)
def reward_mutates_input(lab: Lab) -> Iterator[Violation]:
    """A goal function changes its arguments in place, which corrupts the data of a replay buffer."""
    for name in lab.functions:
        batches = (result for _, result in lab.batch_results(name))
        for result in [*lab.step_results(name), *lab.pair_results(name), *batches]:
            if result.mutated_argument:
                subject = result.mutated_argument + ("" if name == REWARD else f" of {name}")
                yield Violation(f"{name} changed this argument in place", subject=subject)


@rule(
    "GE110",
    fix="use only the arguments, and desired_goal itself instead of values in info that depend on it; return "
    "time limits as truncated",
    needs=("later",),
    wrong="return -np.linalg.norm(achieved_goal - self.goal, axis=-1)",
    right="return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)",
)
def reward_depends_on_state(lab: Lab) -> Iterator[Violation]:
    """A goal function depends on state or on infos of the recorded goal, or ignores desired_goal."""
    for name in lab.functions:
        subject = "" if name == REWARD else name
        if change := lab.changed_result(name):
            yield Violation(change, subject=subject)
        elif key := lab.info_of_recorded_goal(name):
            message = f"{name} changes with info[{key!r}], which depends on the recorded goal"
            yield Violation(message, subject=subject)
        elif name == REWARD and not lab.is_always_reached and _ignores_goal(lab):
            yield Violation("the reward is the same for different desired goals")


def _ignores_goal(lab: Lab) -> bool:
    """Whether the reward never changes with the desired goal, if achieved goal and info stay the same."""
    pairs = list(lab.pairs)
    # The pairs may contain no goal that is reached, so try the step with the best reward, too.
    step = max(lab.steps, key=lambda step: reward_number(step.reward))
    goals = [step.observation["desired_goal"], *(pair.desired for pair in pairs)]
    pairs += [Pair(step.observation["achieved_goal"], goal, step.info) for goal in goals]
    first: dict[int, CallResult] = {}  # result for an info; pairs with the same info have one achieved goal
    for pair in pairs:
        result = lab.call(REWARD, pair.achieved, pair.desired, pair.info)
        if result.number is None or not result.agrees_with(first.setdefault(id(pair.info), result)):
            return False
    return len({flat(goal).tobytes() for goal in goals}) > 1


@rule(
    "GE111",
    fix="remove the randomness from the function",
    needs=("later",),
    wrong="return -distance + self.np_random.normal(0, 0.01)",
    right="return -distance",
)
def reward_nondeterministic(lab: Lab) -> Iterator[Violation]:
    """Repeated calls of a goal function with the same arguments return different values."""
    for name in lab.functions:
        first_results, *repeated = (lab.call_pairs(name) for _ in range(1 + REPETITIONS))
        for first, again in zip(itertools.cycle(first_results), itertools.chain(*repeated), strict=False):
            if not first.agrees_with(again):
                yield Violation(f"{name} {first.outcome}, but the same call again {again.outcome}")


@rule(
    "GE112",
    fix="do not write to attributes or draw random numbers in the function",
    needs=(*REWARD_NEEDS, "replica"),
    wrong="self.last_distance = distance  # which step() reads",
    right="return -distance",
)
def reward_side_effect(lab: Lab) -> Iterator[Violation]:
    """Calling a goal function changes the following steps of the environment."""
    if lab.find_divergence() is not None:
        return  # GE401 reports steps that differ without such calls too
    for name in lab.functions:

        def replay_with_calls(replica: Any, name: str = name) -> Divergence | None:
            return lab.replay(replica, lambda step: lab.call_on(replica, name, step.t))

        if found := lab.on_replica(replay_with_calls):
            values = f"{show(found.repeated)} after calls of {name}, but {show(found.original)}"
            yield Violation(f"the value is {values} without these calls", found.place, found.path)


@rule(
    "GE114",
    fix="avoid division by 0 and log(0), which equal goals can cause; return a number in every case",
    needs=REWARD_NEEDS,
    passive=True,
    wrong="return -np.log(np.linalg.norm(achieved_goal - desired_goal, axis=-1))",
    right="return -np.log(1e-3 + np.linalg.norm(achieved_goal - desired_goal, axis=-1))",
)
def reward_not_finite(lab: Lab) -> Iterator[Violation]:
    """compute_reward or step() returns a reward that is NaN, infinite or not a number."""
    for step, result in zip(lab.steps, lab.step_results(REWARD), strict=True):
        if not result.is_finite:
            yield Violation(f"compute_reward {result.outcome} for the goals of this step", step.place)
    for pair, result in zip(lab.pairs, lab.pair_results(REWARD), strict=True):
        if not result.is_finite:
            goals = "two equal goals" if pair.is_self else "relabeled goals"
            yield Violation(f"compute_reward {result.outcome} for {goals}")
    for step in lab.steps:
        if not math.isfinite(reward_number(step.reward)):
            yield Violation(f"step() returned reward {show(step.reward)}", step.place, "reward of step()")


@rule(
    "GE123",
    severity="warning",
    fix="return float(reward), bool(terminated) and bool(truncated)",
    needs=("steps",),
    passive=True,
    wrong="return observation, np.array([reward]), terminated, truncated, info",
    right="return observation, float(reward), terminated, truncated, info",
)
def step_values_not_scalar(lab: Lab) -> Iterator[Violation]:
    """step() returns a reward or a flag as an array of shape (1,), which vector environments reject."""
    for step in lab.steps:
        for name in OUTCOME:
            value = getattr(step, name)
            if shape := try_as_array(value).shape:
                message = f"step() returned {show(value)} of shape {shape}, not a scalar"
                yield Violation(message, step.place, name)


@rule(
    "GE124",
    severity="warning",
    fix="wrap the difference of angles into half a turn; for quaternions, use the absolute value of q @ p",
    needs=REWARD_NEEDS,
    wrong="difference = achieved_goal - desired_goal  # of angles",
    right="difference = (achieved_goal - desired_goal + np.pi) % (2 * np.pi) - np.pi",
)
def reward_ignores_wrapping(lab: Lab) -> Iterator[Violation]:
    """A goal component wraps around like an angle, or a quaternion changes sign, and rewards ignore this."""
    pairs = [(step.before["achieved_goal"], step.observation["achieved_goal"]) for step in lab.steps]
    shapes, goal = {(type(goal), np.shape(goal)) for pair in pairs for goal in pair}, pairs[0][0]
    if len(shapes) > 1 or not isinstance(goal, np.ndarray) or not 0 < goal.size <= MAX_COMPONENTS:
        return
    before, after = np.array(pairs, np.float64).reshape(len(pairs), 2, -1).swapaxes(0, 1)
    low, high = (function([before, after], axis=(0, 1)) for function in (np.min, np.max))

    def reward(step: StepRecord, first: np.ndarray, second: np.ndarray) -> float:
        goal = step.observation["achieved_goal"]
        first, second = (values.reshape(goal.shape).astype(goal.dtype) for values in (first, second))
        return lab.call(REWARD, first, second, step.info).number or 0.0

    extents = high - low
    for parts in quaternions(before):
        extents[parts] = 0  # these components do not wrap around one by one
        is_jump = (before[:, parts] * after[:, parts]).sum(axis=1) < -0.75
        if is_jump.sum() >= MIN_JUMPS:
            first = is_jump.argmax()
            turned = after[first].copy()
            turned[parts] *= -1
            same, opposite = (reward(lab.steps[first], after[first], each) for each in (after[first], turned))
            if not close(same, opposite):
                message = f"the reward is {opposite:g} for the quaternions q and -q instead of {same:g}"
                yield Violation(message, lab.steps[first].place, f"achieved_goal[{parts.start}:{parts.stop}]")
    for i, extent in enumerate(extents):
        moves = abs(after - before)[:, i]
        is_jump = moves > 0.75 * extent
        is_between = abs(after[:, i] - (low[i] + high[i]) / 2) < extent / 4
        usual = moves[~is_jump].max(initial=0)
        if is_jump.sum() >= MIN_JUMPS and 0 < usual <= 0.25 * extent and is_between.mean() > MIN_BETWEEN:
            first = is_jump.argmax()
            goals = np.tile(after[first], (3, 1))
            gaps = [period - extent for period in PERIODS if 0.9 * period < extent < 1.001 * period]
            gap = min(gaps, default=usual)  # both ends are at most this far apart
            goals[:, i] = high[i], high[i] - max(gap, NEAR * extent), low[i]
            same, near, opposite = (reward(lab.steps[first], goals[0], each) for each in goals)
            if abs(opposite - same) > 10 * abs(near - same):
                ends = f"{show(low[i])} and {show(high[i])} follow each other {is_jump.sum()} times"
                message = f"{ends}, but the reward for this pair of goals is {opposite:g} instead of {same:g}"
                yield Violation(message, lab.steps[first].place, f"achieved_goal[{i}]")


@rule(
    "GE117",
    severity="info",
    fix="rename the parameters",
    needs=REWARD_NEEDS,
    wrong="def compute_reward(self, achieved_goal, goal, info):",
    right="def compute_reward(self, achieved_goal, desired_goal, info):",
)
def reward_signature(lab: Lab) -> Iterator[Violation]:
    """Calls by keyword fail: the parameters are not named achieved_goal, desired_goal and info."""
    try:
        parameters = inspect.signature(lab.functions[REWARD]).parameters
    except (TypeError, ValueError):
        return  # a builtin function without a signature takes arguments by position only
    names = [name for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_POSITIONAL]
    if names[:3] != list(ARGUMENTS[: len(names)]):
        yield Violation(f"compute_reward has the parameters ({', '.join(names)})")


def quaternions(goals: np.ndarray) -> list[slice]:
    """Return each four components that are a unit quaternion in all rows of ``goals``, (T, G)."""
    parts = [slice(i, i + 4) for i in range(goals.shape[1] - 3)]
    return [each for each in parts if np.allclose(np.linalg.norm(goals[:, each], axis=1), 1, atol=1e-3)]
