"""GE204 to GE209: terminations can be computed for other goals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.evidence import INFO_FORMS, call_with
from her_wrappers.checker.probe import describe_answer
from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.probe import Answer
    from her_wrappers.checker.rollout import StepRecord

MIN_EPISODES = 4
"""Fewer episodes of the same length can be a coincidence."""


@rule(
    "GE204",
    "no-compute-terminated",
    "warning",
    meaning="Reaching the goal terminates an episode, and there is no compute_terminated to relabel that.",
    fix="add compute_terminated(achieved_goal, desired_goal, info)",
    needs=("success",),
    inconclusive_without=("ended",),
    wrong="terminated = bool(distance < 0.05)  # and no compute_terminated",
    right="""
def compute_terminated(self, achieved_goal, desired_goal, info):
    return np.linalg.norm(achieved_goal - desired_goal, axis=-1) < 0.05""",
)
def no_compute_terminated(evidence: Evidence) -> Iterator[Violation]:
    """Relabeled transitions that reach their goal must be terminal if original ones are."""
    if evidence.terminated is not None:
        return
    successes = [step for step, reached in zip(evidence.steps, evidence.reached, strict=True) if reached]
    if successes and all(step.terminated for step in successes):
        yield Violation("none", "a method compute_terminated, since success terminates", successes[0].place)


@rule(
    "GE205",
    "terminated-mismatch",
    "error",
    meaning="compute_terminated and step disagree on whether a goal ends the episode, or it is a stub.",
    fix="call compute_terminated from step(), or delete it if the task never ends",
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
    """Goals end episodes as compute_terminated says; other reasons, such as a crash, may end them too."""
    if evidence.terminated is None:
        return
    for step, reached in zip(evidence.steps, evidence.reached, strict=True):
        answer = call_with(evidence.terminated, step)
        if isinstance(answer.error, NotImplementedError):
            yield Violation(answer.raised, "an implementation, or no compute_terminated", step.place)
            return
        ends = None if answer.number is None else bool(answer.number)
        if ends is True and not step.terminated:
            yield Violation("terminated=False", "terminated=True as from compute_terminated", step.place)
        elif ends is False and step.terminated and reached:
            yield Violation(
                "terminated=True on success", "terminated=False as from compute_terminated", step.place
            )
        elif ends is None:
            yield Violation(answer.raised or show(answer.value), "True or False for one goal", step.place)


@rule(
    "GE208",
    "time-limit-terminates",
    "warning",
    meaning="Episodes terminate after a fixed number of steps: a time limit should truncate them.",
    fix="return truncated=True at a time limit, and terminated=True only where the task itself ends",
    needs=("steps", "goals"),
    inconclusive_without=("ended",),
    wrong="terminated = reached or self.elapsed >= self.horizon",
    right="terminated, truncated = reached, self.elapsed >= self.horizon",
)
def time_limit_terminates(evidence: Evidence) -> Iterator[Violation]:
    """Learners expect future rewards after a truncation, and none after a termination."""
    lengths: dict[int, int] = {}
    for step in evidence.steps:
        lengths[step.episode] = max(step.t + 1, lengths.get(step.episode, 0))
    ends = [
        step
        for step, reached in zip(evidence.steps, evidence.reached, strict=True)
        if step.terminated and not (reached or _ends_by_goal(evidence, step))
    ]
    limit = max(lengths.values(), default=0)
    if len(ends) >= MIN_EPISODES and limit > 1 and all(step.t + 1 == limit for step in ends):
        got = f"{len(ends)} episodes without success terminated after exactly {limit} steps, none later"
        yield Violation(got, "truncated=True and terminated=False at a time limit", ends[0].place)


def _ends_by_goal(evidence: Evidence, step: StepRecord) -> bool:
    """Whether compute_terminated says that the goals of a step end the episode."""
    return evidence.terminated is not None and bool(call_with(evidence.terminated, step).number)


@rule(
    "GE209",
    "terminated-depends-on-state",
    "error",
    meaning="compute_terminated answers differently at another time: it reads a clock, a goal or a position.",
    fix="use only the arguments; report time limits by truncated, and other reasons by step()",
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
    """The termination is a function of the two goals and the info."""
    for change in evidence.state_changes:
        if change.function == "compute_terminated":
            got = f"{describe_answer(change.later)} after a reset"
            yield Violation(got, f"{describe_answer(change.first)} as at {change.place}")


@rule(
    "GE206",
    "terminated-not-rowwise",
    "warning",
    meaning="compute_terminated gives one answer for a whole batch (an error where the rows differ).",
    fix="return a bool for each row",
    needs=("batch",),
    wrong="return bool(np.linalg.norm(achieved_goal - desired_goal) < 0.05)",
    right="return np.linalg.norm(achieved_goal - desired_goal, axis=-1) < 0.05",
)
def terminated_not_rowwise(evidence: Evidence) -> Iterator[Violation]:
    """Each row of a batch has an end of its own."""
    if evidence.terminated is None:
        return
    rows = [evidence.terminated(pair.achieved, pair.desired, pair.info) for pair in evidence.pairs]
    if any(row.number is None for row in rows):
        return  # reported with the steps by terminated-mismatch
    for batch in evidence.batches():
        answer = evidence.call_batch(evidence.terminated, batch, INFO_FORMS[0])
        alone = np.array([rows[i].number for i in batch])
        yield from _row_by_row(answer, alone)


def _row_by_row(answer: Answer, alone: np.ndarray) -> Iterator[Violation]:
    count = len(alone)
    numbers = answer.numbers
    if numbers is None:
        yield Violation(
            answer.raised or show(answer.value), f"{count} answers for {count} goals", severity="error"
        )
        return
    wrong = numbers.shape not in {(), (count,)} or bool((numbers != alone).any())
    if wrong or numbers.shape != (count,):
        yield Violation(
            show(answer.value),
            f"{show(alone.astype(bool))} as row by row",
            f"a batch of {count}",
            severity="error" if wrong else "warning",
        )
