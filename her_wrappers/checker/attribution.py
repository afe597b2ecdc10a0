"""Which wrapper causes a finding: the one below which it vanishes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from her_wrappers.checker.collect import Budget, collect
from her_wrappers.checker.judge import judge
from her_wrappers.checker.twins import TwinMaker, layers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.report import Finding

FAMILIES = ("GE0", "GE1")
"""Space and reward rules: what wrappers break."""

MAX_STEPS = 300

COMMON = 0.05
"""A finding in a smaller share of the steps may be missed below a wrapper by chance."""


def blame_wrappers(
    findings: Sequence[Finding], seen: Evidence, twins: TwinMaker, budget: Budget
) -> list[Finding]:
    """Return the findings with the wrapper that causes them, where there is one.

    Args:
        findings: Of the whole stack.
        seen: What they were found in.
        twins: Makes environments like the one checked.
        budget: Of the check; each layer gets a part of it.
    """
    stack = layers(seen.env)
    if len(stack) == 1 or not any(_can_be_blamed(finding, seen) for finding in findings):
        return list(findings)
    part = replace(budget, max_steps=min(budget.max_steps, MAX_STEPS), max_seconds=None, on_step=lambda: None)
    found = [_found_at(layer, twins, part) for layer in range(len(stack))]
    names = [f"{type(layer).__name__} (layer {i} from the outside)" for i, layer in enumerate(stack, 1)]
    return [
        replace(finding, wrapper=_blamed(finding, found, names)) if _can_be_blamed(finding, seen) else finding
        for finding in findings
    ]


def _can_be_blamed(finding: Finding, seen: Evidence) -> bool:
    """Whether wrappers cause such findings, and this one is not so rare that its absence means nothing."""
    if not finding.code.startswith(FAMILIES) or finding.severity == "info":
        return False
    places = {"step": len(seen.steps), "reset": len(seen.tape.starts)}
    return all(finding.count >= COMMON * count for name, count in places.items() if name in finding.place)


def _found_at(layer: int, twins: TwinMaker, budget: Budget) -> set[tuple[str, str]]:
    """Return codes and subjects of what is found when the wrappers above ``layer`` are taken off."""
    twin = twins.make()
    if twin is None:
        return set()
    evidence = collect(layers(twin)[layer], TwinMaker(None), budget)
    return {(finding.code, finding.subject) for finding in judge(evidence)}


def _blamed(finding: Finding, found: Sequence[set[tuple[str, str]]], names: Sequence[str]) -> str:
    """Return the innermost layer down to which every layer has the finding, if those below have not."""
    has = [(finding.code, finding.subject) in layer for layer in found]
    depth = sum(has)
    return names[depth - 1] if 0 < depth < len(has) and all(has[:depth]) else ""
