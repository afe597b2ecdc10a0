"""Which wrapper causes a finding: the innermost layer that has it, if the layers inside of it have not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from her_wrappers.checker.collect import Budget, collect
from her_wrappers.checker.judge import judge
from her_wrappers.checker.registry import RULES
from her_wrappers.checker.replicas import EnvReplicator, layers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.registry import Rule
    from her_wrappers.checker.report import Finding

FAMILIES = ("GE0", "GE1")
"""The families of rules that a wrapper can break: spaces and rewards."""

MAX_STEPS = 300

COMMON = 0.05
"""A finding in a smaller share of the steps may be absent from a layer by chance."""


def attribute_to_wrappers(
    findings: Sequence[Finding], seen: Evidence, replicator: EnvReplicator, budget: Budget
) -> list[Finding]:
    """Return the findings, each with the wrapper that causes it, if a wrapper does.

    Args:
        findings: Findings of the environment with all its wrappers.
        seen: The evidence of these findings.
        replicator: Makes environments like the checked one.
        budget: Budget of the check; each layer is checked with a part of it.
    """
    stack = layers(seen.env)
    candidates = [finding for finding in findings if _is_attributable(finding, seen)]
    if len(stack) == 1 or not candidates:
        return list(findings)
    part = replace(budget, max_steps=min(budget.max_steps, MAX_STEPS), max_seconds=None, on_step=lambda: None)
    rules = [RULES[code] for code in sorted({finding.code for finding in candidates})]
    found = [_found_at(layer, replicator, part, rules) for layer in range(len(stack))]
    names = [f"{type(layer).__name__} (layer {i} from the outside)" for i, layer in enumerate(stack, 1)]
    return [
        replace(finding, wrapper=_causing_layer(finding, found, names)) if finding in candidates else finding
        for finding in findings
    ]


def _is_attributable(finding: Finding, seen: Evidence) -> bool:
    """Whether wrappers can cause the finding, and it is so frequent that its absence from a layer counts."""
    if not finding.code.startswith(FAMILIES) or finding.severity == "info":
        return False
    places = {"step": len(seen.steps), "reset": len(seen.rollout.resets)}
    return all(finding.count >= COMMON * count for name, count in places.items() if name in finding.place)


def _found_at(
    layer: int, replicator: EnvReplicator, budget: Budget, rules: Sequence[Rule]
) -> set[tuple[str, str]]:
    """Return codes and subjects of the findings of ``rules`` without the wrappers outside of ``layer``."""
    replica = replicator.make()
    if replica is None:
        return set()
    evidence = collect(layers(replica)[layer], EnvReplicator(None), budget)
    return {(finding.code, finding.subject) for finding in judge(evidence, rules)}


def _causing_layer(finding: Finding, found: Sequence[set[tuple[str, str]]], names: Sequence[str]) -> str:
    """Return the innermost layer with the finding, if all layers outside of it have the finding too."""
    has = [(finding.code, finding.subject) in layer for layer in found]
    depth = sum(has)
    return names[depth - 1] if 0 < depth < len(has) and all(has[:depth]) else ""
