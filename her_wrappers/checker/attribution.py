"""Which wrapper causes a finding: the one below which it vanishes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from her_wrappers.checker.collect import Budget, collect
from her_wrappers.checker.judge import judge
from her_wrappers.checker.twins import TwinMaker, layers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.checker.report import Finding

FAMILIES = ("GE0", "GE1")
"""Space and reward rules: what wrappers break."""

MAX_STEPS = 300


def blame_wrappers(findings: Sequence[Finding], env: Any, twins: TwinMaker, budget: Budget) -> list[Finding]:
    """Return the findings with the wrapper that causes them, where there is one.

    Args:
        findings: Of the whole stack.
        env: The outermost layer.
        twins: Makes environments like ``env``.
        budget: Of the check; each layer gets a part of it.
    """
    depth = len(layers(env)) - 1
    if (
        not depth
        or not isinstance(env, gym.Env)
        or not any(_is_wrapper_matter(finding) for finding in findings)
    ):
        return list(findings)
    part = replace(budget, max_steps=min(budget.max_steps, MAX_STEPS), max_seconds=None, on_step=lambda: None)
    found = [_found_at(layer, twins, part) for layer in range(depth + 1)]
    names = [f"{type(layer).__name__} (layer {i} from the outside)" for i, layer in enumerate(layers(env), 1)]
    return [
        replace(finding, wrapper=_blamed(finding, found, names)) if _is_wrapper_matter(finding) else finding
        for finding in findings
    ]


def _is_wrapper_matter(finding: Finding) -> bool:
    return finding.code.startswith(FAMILIES) and finding.severity != "info"


def _found_at(layer: int, twins: TwinMaker, budget: Budget) -> set[tuple[str, str]]:
    """Return codes and subjects of what is found when the wrappers above ``layer`` are taken off."""
    twin = twins.make()
    if twin is None:
        return set()
    evidence = collect(layers(twin)[layer], TwinMaker(None), budget)
    return {(finding.code, finding.subject) for finding in judge(evidence)}


def _blamed(finding: Finding, found: Sequence[set[tuple[str, str]]], names: Sequence[str]) -> str:
    key = (finding.code, finding.subject)
    return next((names[i] for i in range(len(found) - 1) if key in found[i] and key not in found[i + 1]), "")
