"""Attribution of findings to wrappers: the innermost layer that has a finding causes it."""

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
"""Families of rules whose findings are attributed to wrappers: spaces and rewards."""

MAX_STEPS = 300
"""Largest number of steps of the check of one layer."""

MIN_SHARE = 0.05
"""Smallest share of the steps or resets with a finding; rarer ones may be absent from a layer by chance."""


def attribute_to_wrappers(
    findings: Sequence[Finding], evidence: Evidence, replicator: EnvReplicator, budget: Budget
) -> list[Finding]:
    """Return the findings, each with the name of the wrapper that causes it, if a wrapper causes it.

    Args:
        findings: Findings of the environment with all its wrappers.
        evidence: Evidence of these findings.
        replicator: Makes environments like the checked one, for checks of each layer.
        budget: Budget of the check; each layer is checked with at most 300 steps.
    """
    stack = layers(evidence.env)
    candidates = [finding for finding in findings if _is_attributable(finding, evidence)]
    if len(stack) == 1 or not candidates:
        return list(findings)
    layer_budget = replace(
        budget, max_steps=min(budget.max_steps, MAX_STEPS), max_seconds=None, on_step=lambda: None
    )
    rules = [RULES[code] for code in sorted({finding.code for finding in candidates})]
    found = [_findings_at(layer, replicator, layer_budget, rules) for layer in range(len(stack))]
    names = [f"{type(layer).__name__} (layer {i} from the outside)" for i, layer in enumerate(stack, 1)]
    return [
        replace(finding, wrapper=_causing_layer(finding, found, names)) if finding in candidates else finding
        for finding in findings
    ]


def _is_attributable(finding: Finding, evidence: Evidence) -> bool:
    """Whether a wrapper can cause the finding, and the finding is too frequent to be absent by chance."""
    if not finding.code.startswith(FAMILIES) or finding.severity == "info":
        return False
    places = {"step": len(evidence.steps), "reset": len(evidence.rollout.resets)}
    return all(finding.count >= MIN_SHARE * count for name, count in places.items() if name in finding.place)


def _findings_at(
    layer: int, replicator: EnvReplicator, budget: Budget, rules: Sequence[Rule]
) -> set[tuple[str, str]]:
    """Return codes and subjects of the findings in an environment without the wrappers outside ``layer``."""
    replica = replicator.make()
    if replica is None:
        return set()
    evidence = collect(layers(replica)[layer], EnvReplicator(None), budget)
    return {(finding.code, finding.subject) for finding in judge(evidence, rules)}


def _causing_layer(finding: Finding, found: Sequence[set[tuple[str, str]]], names: Sequence[str]) -> str:
    """Return the innermost wrapper whose environment has the finding; empty if it is not due to a wrapper."""
    has = [(finding.code, finding.subject) in layer for layer in found]
    depth = sum(has)
    return names[depth - 1] if 0 < depth < len(has) and all(has[:depth]) else ""
