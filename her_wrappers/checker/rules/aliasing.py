"""GE30x: returned values do not change afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import arrays_in, differences, identical, share_memory, show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.rollout import ResetRecord, StepRecord

LOOKED_AT = 30
"""Records whose memory is compared: sharing shows at once or never."""


@rule(
    "GE301",
    "data-changes-later",
    "error",
    meaning="An observation or info that was returned earlier has changed since: the environment reuses it.",
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
    """A buffer that keeps returned objects keeps the values that they had."""
    for record in evidence.rollout.records:
        for name, live, held in (
            ("observation", record.live_observation, record.observation),
            ("info", record.live_info, record.info),
        ):
            for part, was, is_now in differences(held, live, identical):
                yield Violation(
                    f"{show(is_now)} later on",
                    f"{show(was)} as returned",
                    record.place,
                    f"{name} {part}".strip(),
                )


@rule(
    "GE302",
    "shared-memory",
    "warning",
    meaning="Observations share memory with the environment, another key or an earlier call, or the action "
    "is changed or handed back: writing to one shows in the other.",
    fix="return and keep copies",
    adapter="CopyObservation",
    passive=True,
    wrong="""
return {"observation": state, "achieved_goal": state[:2], "desired_goal": self.goal}""",
    right="""
return {"observation": state, "achieved_goal": state[:2].copy(), "desired_goal": self.goal.copy()}""",
)
def shared_memory(evidence: Evidence) -> Iterator[Violation]:
    """Returned arrays belong to the receiver, and actions to the caller."""
    yield from _shared_with_state(evidence)
    records = sorted(evidence.rollout.records, key=lambda record: (record.episode, getattr(record, "t", -1)))
    for i, record in enumerate(records[:LOOKED_AT]):
        yield from _shared_keys(record)
        if i:
            yield from _shared_calls(records[i - 1], record)
    for step in evidence.steps[:LOOKED_AT]:
        yield from _shared_action(step)


def _shared_with_state(evidence: Evidence) -> Iterator[Violation]:
    records = evidence.rollout.steps or evidence.rollout.resets
    for key, array in arrays_in(records[-1].live_observation) if records else ():
        for name, part in evidence.state:
            if share_memory(array, part):
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
                yield _shares(key, "what the call before returned", later.place)


def _shared_action(step: StepRecord) -> Iterator[Violation]:
    if not identical(step.action, step.live_action):
        yield Violation(
            f"{show(step.live_action)} after step()",
            f"the action {show(step.action)} unchanged",
            step.place,
            "action",
        )
    if not isinstance(step.live_action, np.ndarray):
        return
    for key, array in arrays_in({"observation": step.live_observation, "info": step.live_info}):
        if share_memory(array, step.live_action):
            yield _shares(key, "the action given", step.place)


def _shares(part: str, other: str, place: str = "") -> Violation:
    key = part.split("/", maxsplit=1)[0]
    return Violation(f"{part} in the memory of {other}", "memory of its own", place, key)


@rule(
    "GE303",
    "goal-changes-in-episode",
    "error",
    meaning="desired_goal changes between two resets, so that one episode pursues several goals.",
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
    """An episode has one goal from its reset to its end."""
    for step in evidence.steps:
        before, after = step.before["desired_goal"], step.observation["desired_goal"]
        if not identical(before, after):
            yield Violation(show(after), f"{show(before)} as before the step", step.place)
