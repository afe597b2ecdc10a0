"""GE201 to GE203, GE207: the info has a success flag that agrees with the reward, also at reset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from her_wrappers.checker.registry import Violation, rule
from her_wrappers.checker.values import show, type_name
from her_wrappers.success_flag import flag_name, flag_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from her_wrappers.checker.evidence import Evidence


@rule(
    "GE201",
    "no-success-flag",
    "warning",
    meaning="No info has a success flag, neither is_success nor success.",
    fix='set info["is_success"] to a bool in reset() and step()',
    adapter="BooleanSuccess",
    needs=("steps", "goals"),
    wrong="return observation, reward, terminated, truncated, {}",
    right='return observation, reward, terminated, truncated, {"is_success": bool(distance < 0.05)}',
)
def no_success_flag(evidence: Evidence) -> Iterator[Violation]:
    """The info has a flag, by which success rates are measured."""
    if not any(flag_name(step.info) for step in evidence.steps):
        yield Violation("neither is_success nor success in any info", 'a bool in info["is_success"]')


@rule(
    "GE202",
    "success-mismatch",
    "error",
    meaning="The success flag and the reward disagree on whether the goal is reached.",
    fix="compute both by the same function with the same threshold",
    needs=("sparse",),
    inconclusive_without=("success",),
    passive=True,
    wrong="""
info = {"is_success": distance < 0.1}
reward = -float(distance > 0.05)""",
    right="""
success = distance < 0.05
info, reward = {"is_success": success}, success - 1.0""",
)
def success_mismatch(evidence: Evidence) -> Iterator[Violation]:
    """The flag is True exactly where compute_reward returns the reward of success."""
    for step, result, reached in zip(evidence.steps, evidence.recomputed, evidence.reached, strict=True):
        flag = flag_of(step.info)
        if flag is not None and flag != reached and result.number is not None:
            name = flag_name(step.info)
            yield Violation(
                f"{name}={flag}",
                f"{name}={reached}, since compute_reward returns {show(result.value)}",
                step.place,
            )
    for record in evidence.rollout.resets:
        if flag_of(record.info) and not evidence.is_rewarded_as_success(record):
            name = flag_name(record.info)
            yield Violation(
                f"{name}=True",
                f"{name}=False, since compute_reward does not return the reward of success",
                record.place,
                "reset",
                hint="the flag may belong to the previous episode",
            )


@rule(
    "GE203",
    "success-flag-form",
    "info",
    meaning="The success flag is not a bool, is missing at reset, or is named success.",
    fix='set info["is_success"] to a bool in reset() and step()',
    adapter="BooleanSuccess",
    needs=("steps", "goals"),
    wrong='info = {"success": np.float32(distance < 0.05)}',
    right='info = {"is_success": bool(distance < 0.05)}',
)
def success_flag_form(evidence: Evidence) -> Iterator[Violation]:
    """The flag has the same name and type in every info."""
    names = {flag_name(step.info) for step in evidence.steps}
    if names == {None}:
        return
    if "is_success" not in names:
        yield Violation("success", "is_success", subject="name of the flag")
    for step in evidence.steps:
        yield from _flag_form(step.info, step.place)
    for record in evidence.rollout.resets:
        if flag_name(record.info) is None:
            yield Violation("no flag", "a flag at reset too", record.place, "reset")


def _flag_form(info: Any, place: str) -> Iterator[Violation]:
    name = flag_name(info)
    if name is None:
        yield Violation("no flag", "a flag at every step", place, "step")
    elif not isinstance(info[name], bool):
        yield Violation(
            f"{show(info[name])} of type {type_name(info[name])}", "a bool", place, "type of the flag"
        )


@rule(
    "GE207",
    "success-at-reset",
    "info",
    meaning="Most episodes start with their goal reached, so that an agent learns nothing from them.",
    fix="draw the goal again while the start position reaches it",
    needs=("reward",),
    wrong="self.goal = self.np_random.uniform(-0.01, 0.01, 2)  # every start is (0, 0)",
    right="""
while self._reached(self.start, self.goal):
    self.goal = self._draw_goal()""",
)
def success_at_reset(evidence: Evidence) -> Iterator[Violation]:
    """Most episodes start with an unreached goal."""
    resets = evidence.rollout.resets
    solved = [record for record in resets if evidence.starts_solved(record)]
    if len(solved) > len(resets) / 2:
        yield Violation(
            f"{len(solved)} of {len(resets)} episodes reached at reset", "an unreached goal at most resets"
        )
