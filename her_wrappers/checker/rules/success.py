"""Rules GE2xx: success flags, rewards and terminations agree; terminations can be computed for any goal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from her_wrappers.checker.comparing import show, type_name
from her_wrappers.checker.goal_calls import INFO_FORMS, PAIR_STEPS, distance, flat, threshold
from her_wrappers.checker.lab import BATCH_NEEDS, REWARD, REWARD_NEEDS, TERMINATED, Lab, rule
from her_wrappers.checker.records import StepRecord, goals_of, spread
from her_wrappers.goals.success_flag import flag_name, flag_of
from her_wrappers.rules import Severity, Violation

MIN_CONTINUED = 50  # other steps, all nearer to their goals than steps that terminate
OUT_OF_REACH = 2  # times the largest move of a step times the length of an episode
MIN_EPISODES = 4  # smallest number of episodes with the same kind of end that is not taken for a coincidence


@rule(
    "GE201",
    severity="warning",
    fix='set info["is_success"] to a bool in reset() and step()',
    repair="BooleanSuccess",
    needs=("steps", "goals"),
    wrong="return observation, reward, terminated, truncated, {}",
    right='return observation, reward, terminated, truncated, {"is_success": bool(distance < 0.05)}',
)
def no_success_flag(lab: Lab) -> Iterator[Violation]:
    """No info has a success flag, neither is_success nor success."""
    if not any(flag_name(step.info) for step in lab.steps):
        yield Violation("no info has the key 'is_success' or 'success'")


@rule(
    "GE202",
    fix="compute the flag and the reward by the same function with the same threshold",
    needs=("goals", "reward", "sparse"),
    inconclusive_without=("success",),
    passive=True,
    wrong='info, reward = {"is_success": distance < 0.1}, -float(distance > 0.05)',
    right='info, reward = {"is_success": success}, success - 1.0',
)
def success_mismatch(lab: Lab) -> Iterator[Violation]:
    """The success flag and the reward disagree on whether the goal is reached."""
    for step, result, reached in zip(lab.steps, lab.step_results(REWARD), lab.reached, strict=True):
        flag = flag_of(step.info)
        if flag is not None and flag != reached and result.number is not None:
            name = flag_name(step.info)
            yield Violation(f"{name} is {flag}, but compute_reward returns {show(result.value)}", step.place)
    for record in lab.rollout.resets:
        if flag_of(record.info) and not lab.is_rewarded_as_success(record):
            reward = "compute_reward does not return the reward of success"
            cause = "the flag may belong to the previous episode"
            message = f"{flag_name(record.info)} is True, but {reward}; {cause}"
            yield Violation(message, record.place, "reset")


@rule(
    "GE203",
    severity="info",
    fix='set info["is_success"] to a bool in reset() and step()',
    repair="BooleanSuccess",
    needs=("steps", "goals"),
    wrong='info = {"success": np.float32(distance < 0.05)}',
    right='info = {"is_success": bool(distance < 0.05)}',
)
def success_flag_form(lab: Lab) -> Iterator[Violation]:
    """The success flag is not a bool, is missing, or is named success.

    This is a warning if the flag is a text, or is present only where it is True.
    """
    names = {flag_name(step.info) for step in lab.steps}
    if names == {None}:
        return
    if "is_success" not in names:
        yield Violation("the flag is named 'success' instead of 'is_success'", subject="name of the flag")
    flags = [flag_of(step.info) for step in lab.steps if flag_name(step.info)]
    if None in names and all(flags):
        first = next(step for step in lab.steps if flag_name(step.info) is None)
        message = f"the flag is present only where it is True, in {len(flags)} of {len(lab.steps)} steps"
        yield Violation(message, first.place, "step", severity="warning")
    for step in lab.steps:
        name = flag_name(step.info)
        if name is None:
            yield Violation("the info of a step has no success flag", step.place, "step")
        elif not isinstance(step.info[name], bool):
            value = step.info[name]
            message = f"{name} is {show(value)} of type {type_name(value)}"
            unknown: Severity | None = "warning" if flag_of(step.info) is None else None
            yield Violation(message, step.place, "type of the flag", severity=unknown)
    for record in lab.rollout.resets:
        if flag_name(record.info) is None:
            yield Violation("the info of reset() has no success flag", record.place, "reset")


@rule(
    "GE207",
    severity="info",
    fix="draw the goal again while the start reaches it; if all goals are reached, check the threshold and "
    "what achieved_goal contains",
    needs=REWARD_NEEDS,
    wrong="self.goal = self.np_random.uniform(-0.01, 0.01, 2)  # every start is (0, 0)",
    right="""
while self._reached(self.start, self.goal):
    self.goal = self._draw_goal()""",
)
def success_at_reset(lab: Lab) -> Iterator[Violation]:
    """Most episodes start with their goal reached (a warning if all desired or relabeled goals are)."""
    resets, flags = lab.rollout.resets, [flag_of(record.info) for record in lab.rollout.resets]
    solved = [
        flag if flag is not None else lab.is_sparse and lab.is_rewarded_as_success(record)
        for record, flag in zip(resets, flags, strict=True)
    ]
    if sum(solved) > len(resets) / 2:
        yield Violation(f"{sum(solved)} of {len(resets)} episodes start with their goal reached")
    if lab.is_always_reached:
        message = "all goals are reached, as if the threshold is in another unit than the goals"
        yield Violation(message, subject="threshold", severity="warning")
    missed = zip(lab.distances, lab.reached, strict=True)
    far = min((each for each, reached in missed if not reached), default=math.inf)
    some = [step.observation["achieved_goal"] for step in spread(lab.steps, PAIR_STEPS)]
    pairs = list(itertools.combinations(some, 2))
    if lab.is_sparse and any(distance(*pair) > far for pair in pairs):
        rewards = [lab.call(REWARD, *pair, lab.steps[0].info).number for pair in pairs]
        if set(rewards) == {lab.success_reward}:
            message = "each achieved goal, as a desired goal, counts as reached by all other achieved goals"
            yield Violation(message, subject="relabeled goals", severity="warning")


@rule(
    "GE211",
    severity="warning",
    fix="use one unit and one frame for both goals, and draw goals that an episode can reach",
    needs=("steps", "goals"),
    wrong="self.goal = 1000 * self._draw_goal()  # in millimeters; the position is in meters",
    right="self.goal = self._draw_goal()",
)
def goal_out_of_reach(lab: Lab) -> Iterator[Violation]:
    """Goals are so far away that no episode can reach them, as if they were in another unit."""
    starts = lab.rollout.resets
    ways = [distance(*goals_of(each)) for each in starts]
    reach = max(lab.moves, default=0) * max((step.t + 1 for step in lab.steps), default=0)
    far = sum(way > OUT_OF_REACH * reach for way in ways)
    # An object can be touched too seldom to judge.
    is_driven = ways and np.median(lab.moves) > max(lab.moves) / 10
    if is_driven and not lab.successes and len(starts) >= MIN_EPISODES and far > 0.9 * len(starts):
        message = f"{far} of {len(starts)} goals are {min(ways):.3g} or more away, but even the largest moves"
        yield Violation(f"{message} of a step cover at most {reach:.3g} in an episode")


@rule(
    "GE204",
    severity="warning",
    fix="add compute_terminated(achieved_goal, desired_goal, info)",
    needs=(*REWARD_NEEDS, "success"),
    inconclusive_without=("ended",),
    wrong="terminated = bool(distance < 0.05)",
    right="terminated = bool(self.compute_terminated(achieved_goal, desired_goal, {}))",
)
def no_compute_terminated(lab: Lab) -> Iterator[Violation]:
    """A reached goal terminates the episode, but there is no compute_terminated for relabeled goals."""
    if TERMINATED in lab.functions:
        return
    ended = [step for step in lab.steps if step.terminated]
    is_only_end = len(ended) >= MIN_EPISODES and len(lab.successes) < len(lab.steps) / 2
    reached = set(map(id, lab.successes))
    if all(step.terminated for step in lab.successes) or (is_only_end and {*map(id, ended)} <= reached):
        count = f"{len(ended)} times, success terminated the episode"
        yield Violation(f"{count}, but the environment has no compute_terminated", ended[0].place)


@rule(
    "GE205",
    fix="call compute_terminated in step(), or delete the function if the task never terminates",
    needs=REWARD_NEEDS,
    inconclusive_without=("success", "ended"),
    passive=True,
    wrong="return np.zeros(len(achieved_goal), bool)  # though step() terminates on success",
    right="terminated = bool(self.compute_terminated(achieved_goal, desired_goal, info))  # in step()",
)
def terminated_mismatch(lab: Lab) -> Iterator[Violation]:
    """compute_terminated disagrees with step() or returns no bool, or episodes end just before success."""
    # A step without success may also terminate for another reason, such as a crash.
    results = lab.step_results(TERMINATED)
    for step, result, reached in zip(lab.steps, results, lab.reached, strict=False):
        if isinstance(result.error, NotImplementedError):
            yield Violation(f"compute_terminated raises {result.error_text}", step.place)
            return
        if result.number is None:
            message = f"instead of True or False for one goal, compute_terminated {result.outcome}"
            yield Violation(message, step.place)
        elif result.number and not step.terminated:
            message = "step() returned terminated=False, but compute_terminated returned True"
            yield Violation(message, step.place)
        elif not result.number and step.terminated and reached:
            message = "step() returned terminated=True on success, but compute_terminated returned False"
            yield Violation(message, step.place)
    name = REWARD if lab.is_sparse else TERMINATED

    def share(step: StepRecord) -> float:  # of the distance to the goal, at which it would be reached
        return threshold(*goals_of(step), step.info, partial(lab.call, name)) or 0.0

    ended = zip(lab.steps, lab.reached, strict=True)
    early = [step for step, reached in ended if step.terminated and not reached and name in lab.functions]
    if len(early) >= MIN_EPISODES and all(share(step) > 0.5 for step in early):
        least, others = min(map(share, early)), (step for step in lab.steps if not step.terminated)
        near = sorted(others, key=lambda step: distance(*goals_of(step)))
        if all(share(step) < least for step in near[:50]):
            message = f"{len(early)} episodes terminated before success, all at {1 / least:.2f} times"
            yield Violation(f"{message} the distance of success or less", early[0].place, severity="warning")


@rule(
    "GE210",
    severity="warning",
    fix="let compute_terminated return these terminations too, or end such episodes with truncated=True",
    needs=REWARD_NEEDS,
    inconclusive_without=("ended",),
    wrong="return distance < 0.05  # but step() also terminates if distance > 1.0",
    right="return (distance < 0.05) | (distance > 1.0)",
)
def terminated_far_from_goal(lab: Lab) -> Iterator[Violation]:
    """Episodes terminate far from their goal, but compute_terminated does not return this."""
    failures, distances = _failures(lab), lab.distances
    others = [each for each, step in zip(distances, lab.steps, strict=True) if not step.terminated]
    different = {flat(record.observation["desired_goal"]).tobytes() for record in lab.rollout.resets}
    if min(len(failures), len(different)) >= MIN_EPISODES and len(others) >= MIN_CONTINUED:
        nearest = min(failures, key=distances.__getitem__)
        if distances[nearest] > max(others):
            text = f"{len(failures)} episodes terminated without success, all farther from the desired goal"
            least = f"({distances[nearest]:.3g} or more)"
            yield Violation(f"{text} {least} than all other steps", lab.steps[nearest].place)


def _failures(lab: Lab) -> list[int]:
    """Return the indices of steps that terminated without success, and not due to compute_terminated."""
    computed = [result.number for result in lab.step_results(TERMINATED)]
    reasons = map(any, itertools.zip_longest(lab.reached, computed))
    known = zip(lab.steps, reasons, strict=True)
    return [i for i, (step, is_known) in enumerate(known) if step.terminated and not is_known]


@rule(
    "GE208",
    severity="warning",
    fix="return truncated=True at the time limit, and terminated=True only where the task itself ends",
    needs=("steps", "goals"),
    inconclusive_without=("ended",),
    wrong="terminated = reached or self.elapsed >= self.horizon",
    right="terminated, truncated = reached, self.elapsed >= self.horizon",
)
def time_limit_terminates(lab: Lab) -> Iterator[Violation]:
    """Time limits terminate episodes instead of truncating them, or success truncates them."""
    failures = [lab.steps[i] for i in _failures(lab)]
    limit = max((step.t + 1 for step in lab.steps), default=0)
    if len(failures) >= MIN_EPISODES and limit > 1 and all(step.t + 1 == limit for step in failures):
        message = f"{len(failures)} episodes terminated without success, all after exactly {limit} steps"
        yield Violation(message, failures[0].place)
    early = [step for step in lab.successes if step.t + 1 < limit]
    if len(early) >= MIN_EPISODES and all(step.truncated and not step.terminated for step in early):
        yield Violation("success truncates episodes, instead of terminating them", early[0].place, "success")


@rule(
    "GE206",
    severity="warning",
    fix="return a bool for each row",
    needs=BATCH_NEEDS,
    wrong="return bool(np.linalg.norm(achieved_goal - desired_goal) < 0.05)",
    right="return np.linalg.norm(achieved_goal - desired_goal, axis=-1) < 0.05",
)
def terminated_not_rowwise(lab: Lab) -> Iterator[Violation]:
    """compute_terminated returns one value for a whole batch (an error if the rows differ)."""
    results = lab.pair_results(TERMINATED)
    if any(result.number is None for result in results):
        return  # GE205 reports the same for the steps
    forms = lab.form_results(TERMINATED)
    if forms and lab.info_form(TERMINATED) is None and not lab.needs_info(TERMINATED):
        error = forms[INFO_FORMS[0]].error_text
        yield Violation(f"for 2 goals, compute_terminated raises {error}", severity="error")
    for rows, result in lab.batch_results(TERMINATED):
        count = len(rows)
        numbers, single = result.numbers, np.array([results[i].number for i in rows])
        if numbers is None:
            message = f"for {count} goals, compute_terminated {result.outcome}"
            yield Violation(message, severity="error")
            continue
        wrong = numbers.shape not in {(), (count,)} or bool((numbers != single).any())
        if wrong or numbers.shape != (count,):
            alone = f"for the rows one by one, it returns {show(single.astype(bool))}"
            message = f"compute_terminated {result.outcome}, but {alone}"
            severity: Severity = "error" if wrong else "warning"
            yield Violation(message, f"a batch of {count}", severity=severity)
