"""GE30x: returned observations and infos do not change later, share no memory, and keep the goal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import arrays_in, differences, identical, share_memory, show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.rollout import ResetRecord, StepRecord

MAX_RECORDS = 30
"""Number of first records whose memory is compared: sharing begins with the first records or never."""


@rule(
    "GE301",
    "data-changes-later",
    "error",
    meaning="An observation or info changes after it was returned: the environment reuses the object.",
    fix="return copies",
    adapter="CopyObservation",
    passive=True,
    implies=("GE302",),
    wrong="""
self._position += action
return {"achieved_goal": self._position, ...}""",
    right="""
self._position = self._position + action
return {"achieved_goal": self._position.copy(), ...}""",
)
def data_changes_later(evidence: Evidence) -> Iterator[Violation]:
    """Returned objects keep their values, so that a buffer may store them without a copy."""
    for record in evidence.rollout.records:
        for name, live, copied in (
            ("observation", record.live_observation, record.observation),
            ("info", record.live_info, record.info),
        ):
            for key, before, after in differences(copied, live, identical):
                subject = f"{name} {key}".strip()
                yield Violation(f"{show(after)} later", f"{show(before)} as returned", record.place, subject)


@rule(
    "GE302",
    "shared-memory",
    "warning",
    meaning="Observations share memory with the environment, another key, an earlier observation or the "
    "action, or step() changes the action: writing to one array changes another.",
    fix="return and store copies",
    adapter="CopyObservation",
    passive=True,
    wrong="""
return {"observation": state, "achieved_goal": state[:2], "desired_goal": self.goal}""",
    right="""
return {"observation": state, "achieved_goal": state[:2].copy(), "desired_goal": self.goal.copy()}""",
)
def shared_memory(evidence: Evidence) -> Iterator[Violation]:
    """Returned arrays share memory with nothing, and actions keep their values."""
    yield from _shared_with_state(evidence)
    records = sorted(evidence.rollout.records, key=lambda record: (record.episode, getattr(record, "t", -1)))
    for i, record in enumerate(records[:MAX_RECORDS]):
        yield from _shared_keys(record)
        if i:
            yield from _shared_calls(records[i - 1], record)
    for step in evidence.steps[:MAX_RECORDS]:
        yield from _shared_action(step)


def _shared_with_state(evidence: Evidence) -> Iterator[Violation]:
    records = evidence.rollout.steps or evidence.rollout.resets
    for key, array in arrays_in(records[-1].live_observation) if records else ():
        for name, attribute in evidence.state:
            if share_memory(array, attribute):
                yield _shares(key, f"the environment's {name}")
                break


def _shared_keys(record: ResetRecord | StepRecord) -> Iterator[Violation]:
    arrays = arrays_in(record.live_observation)
    for i, (key, array) in enumerate(arrays):
        for other_key, other in arrays[:i]:
            if share_memory(array, other):
                yield _shares(key, other_key, record.place)


def _shared_calls(earlier: ResetRecord | StepRecord, later: ResetRecord | StepRecord) -> Iterator[Violation]:
    for key, array in arrays_in(later.live_observation):
        for other_key, other in arrays_in(earlier.live_observation):
            if key == other_key and share_memory(array, other):
                yield _shares(key, "the previous observation", later.place)


def _shared_action(step: StepRecord) -> Iterator[Violation]:
    if not identical(step.action, step.live_action):
        yield Violation(
            f"{show(step.live_action)} after step()",
            f"an unchanged action {show(step.action)}",
            step.place,
            "action",
        )
    if not isinstance(step.live_action, np.ndarray):
        return
    for key, array in arrays_in({"observation": step.live_observation, "info": step.live_info}):
        if share_memory(array, step.live_action):
            yield _shares(key, "the action", step.place)


def _shares(name: str, other: str, place: str = "") -> Violation:
    key = name.split("/", maxsplit=1)[0]
    return Violation(f"{name} sharing memory with {other}", "an array with separate memory", place, key)


@rule(
    "GE303",
    "goal-changes-in-episode",
    "error",
    meaning="desired_goal changes between two resets, so that one episode has several goals.",
    fix="end the episode when the goal changes",
    needs=("goals",),
    passive=True,
    implies=("GE101", "GE103", "GE202", "GE205"),
    wrong="""
if reached:
    self.goal = self._draw_goal()  # in the middle of an episode""",
    right="terminated = reached  # reset() draws the next goal",
)
def goal_changes_in_episode(evidence: Evidence) -> Iterator[Violation]:
    """The desired goal stays the same from the reset to the end of an episode."""
    for step in evidence.steps:
        before, after = step.before["desired_goal"], step.observation["desired_goal"]
        if not identical(before, after):
            yield Violation(show(after), f"desired_goal {show(before)} as before the step", step.place)
