"""GE204 to GE206, GE208, GE209: terminations can be computed for other goals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.evidence import INFO_FORMS, call_at
from her_wrappers.checker.probe import describe_result
from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.probe import CallResult
    from her_wrappers.checker.rollout import StepRecord

MIN_EPISODES = 4
"""Smallest number of episodes of the same length that is not taken for a coincidence."""


@rule(
    "GE204",
    "no-compute-terminated",
    "warning",
    meaning="A reached goal terminates the episode, but there is no compute_terminated for relabeled goals.",
    fix="add compute_terminated(achieved_goal, desired_goal, info)",
    needs=("success",),
    inconclusive_without=("ended",),
    wrong="terminated = bool(distance < 0.05)  # without a method compute_terminated",
    right="""
def compute_terminated(self, achieved_goal, desired_goal, info):
    return np.linalg.norm(achieved_goal - desired_goal, axis=-1) < 0.05""",
)
def no_compute_terminated(evidence: Evidence) -> Iterator[Violation]:
    """If success terminates recorded transitions, relabeled ones can be terminated too."""
    if evidence.terminated is not None:
        return
    successes = [step for step, reached in zip(evidence.steps, evidence.reached, strict=True) if reached]
    if successes and all(step.terminated for step in successes):
        expected = "a method compute_terminated, since success terminates the episode"
        yield Violation("no such method", expected, successes[0].place)


@rule(
    "GE205",
    "terminated-mismatch",
    "error",
    meaning="compute_terminated contradicts step() on whether a goal terminates, or is not implemented.",
    fix="call compute_terminated in step(), or delete it if the task never terminates",
    needs=("reward",),
    inconclusive_without=("success", "ended"),
    passive=True,
    wrong="""
def compute_terminated(self, achieved_goal, desired_goal, info):
    return np.zeros(len(achieved_goal), bool)  # though step() terminates on success""",
    right="""
terminated = bool(self.compute_terminated(achieved_goal, desired_goal, info))""",
)
def terminated_mismatch(evidence: Evidence) -> Iterator[Violation]:
    """An episode terminates if compute_terminated returns True; other reasons may terminate it too."""
    if evidence.terminated is None:
        return
    for step, reached in zip(evidence.steps, evidence.reached, strict=True):
        result = call_at(evidence.terminated, step)
        if isinstance(result.error, NotImplementedError):
            expected = "an implemented compute_terminated, or no such method"
            yield Violation(result.error_text, expected, step.place)
            return
        terminates = None if result.number is None else bool(result.number)
        if terminates is True and not step.terminated:
            yield Violation("terminated=False", "terminated=True as from compute_terminated", step.place)
        elif terminates is False and step.terminated and reached:
            yield Violation(
                "terminated=True on success", "terminated=False as from compute_terminated", step.place
            )
        elif terminates is None:
            yield Violation(result.error_text or show(result.value), "True or False for one goal", step.place)


@rule(
    "GE208",
    "time-limit-terminates",
    "warning",
    meaning="Episodes terminate after a fixed number of steps; a time limit should truncate instead.",
    fix="return truncated=True at the time limit, and terminated=True only where the task itself ends",
    needs=("steps", "goals"),
    inconclusive_without=("ended",),
    wrong="terminated = reached or self.elapsed >= self.horizon",
    right="terminated, truncated = reached, self.elapsed >= self.horizon",
)
def time_limit_terminates(evidence: Evidence) -> Iterator[Violation]:
    """A time limit truncates an episode: targets bootstrap after a truncation, not after a termination."""
    lengths: dict[int, int] = {}
    for step in evidence.steps:
        lengths[step.episode] = max(step.t + 1, lengths.get(step.episode, 0))
    failures = [
        step
        for step, reached in zip(evidence.steps, evidence.reached, strict=True)
        if step.terminated and not (reached or _ends_by_goal(evidence, step))
    ]
    limit = max(lengths.values(), default=0)
    if len(failures) >= MIN_EPISODES and limit > 1 and all(step.t + 1 == limit for step in failures):
        got = f"{len(failures)} episodes that terminated without success, all after exactly {limit} steps"
        yield Violation(got, "truncated=True and terminated=False at a time limit", failures[0].place)


def _ends_by_goal(evidence: Evidence, step: StepRecord) -> bool:
    """Whether compute_terminated returns True for the goals of a step."""
    return evidence.terminated is not None and bool(call_at(evidence.terminated, step).number)


@rule(
    "GE209",
    "terminated-depends-on-state",
    "error",
    meaning="compute_terminated returns other values for the same arguments later: it depends on the state "
    "of the environment.",
    fix="use only the arguments; return time limits as truncated, and other reasons from step()",
    needs=("replica", "reward"),
    implies=("GE205", "GE206", "GE208"),
    wrong="""
def compute_terminated(self, achieved_goal, desired_goal, info):
    reached = self._is_reached(achieved_goal, desired_goal)
    return reached | (self.elapsed >= self.horizon)""",
    right="""
def compute_terminated(self, achieved_goal, desired_goal, info):
    return self._is_reached(achieved_goal, desired_goal)""",
)
def terminated_depends_on_state(evidence: Evidence) -> Iterator[Violation]:
    """The termination is a function of the two goals and the info alone."""
    for change in evidence.state_changes:
        if change.function == "compute_terminated":
            got = f"{describe_result(change.later)} after a reset"
            yield Violation(got, f"{describe_result(change.first)} as at {change.place}")


@rule(
    "GE206",
    "terminated-not-rowwise",
    "warning",
    meaning="compute_terminated returns one value for a whole batch (an error if the rows differ).",
    fix="return a bool for each row",
    needs=("batch",),
    wrong="return bool(np.linalg.norm(achieved_goal - desired_goal) < 0.05)",
    right="return np.linalg.norm(achieved_goal - desired_goal, axis=-1) < 0.05",
)
def terminated_not_rowwise(evidence: Evidence) -> Iterator[Violation]:
    """Each row of a batch has its own termination."""
    if evidence.terminated is None:
        return
    results = [evidence.terminated(pair.achieved, pair.desired, pair.info) for pair in evidence.pairs]
    if any(result.number is None for result in results):
        return  # GE205 reports the same for the steps
    for batch in evidence.batches():
        result = evidence.call_batch(evidence.terminated, batch, INFO_FORMS[0])
        single = np.array([results[i].number for i in batch])
        yield from _compare_rows(result, single)


def _compare_rows(result: CallResult, single: np.ndarray) -> Iterator[Violation]:
    count = len(single)
    numbers = result.numbers
    if numbers is None:
        expected = f"{count} values for {count} goals"
        yield Violation(result.error_text or show(result.value), expected, severity="error")
        return
    wrong = numbers.shape not in {(), (count,)} or bool((numbers != single).any())
    if wrong or numbers.shape != (count,):
        expected, place = f"{show(single.astype(bool))} as for the single rows", f"a batch of {count}"
        yield Violation(show(result.value), expected, place, severity="error" if wrong else "warning")
