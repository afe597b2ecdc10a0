"""Judging evidence: apply the rules, group what they find, and leave out what only follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from her_wrappers.checker import rules as _register_rules  # noqa: F401 - importing it registers the rules
from her_wrappers.checker.registry import RULES, Occurrence, Rule
from her_wrappers.checker.report import Finding, NotExercised

if TYPE_CHECKING:
    from her_wrappers.checker.evidence import Evidence

SUPPRESSES: dict[str, tuple[str, ...]] = {
    "GE000": ("GE104", "GE113"),
    "GE004": (
        "GE101",
        "GE103",
        "GE104",
        "GE105",
        "GE106",
        "GE108",
        "GE110",
        "GE113",
        "GE114",
        "GE115",
        "GE206",
    ),
    "GE005": ("GE103",),
    "GE101": ("GE103", "GE202", "GE205", "GE207"),
    "GE104": ("GE106", "GE108"),
    "GE105": ("GE106", "GE108"),
    "GE109": ("GE101", "GE103", "GE106", "GE110", "GE111", "GE112", "GE202", "GE205", "GE301", "GE302"),
    "GE110": ("GE101", "GE103", "GE106", "GE115", "GE202", "GE204", "GE205", "GE207"),
    "GE111": ("GE101", "GE103", "GE106", "GE110", "GE112", "GE115", "GE116", "GE202", "GE205", "GE401"),
    "GE112": ("GE101", "GE103", "GE106", "GE110", "GE401"),
    "GE114": ("GE101", "GE103", "GE106", "GE110", "GE115", "GE202", "GE204", "GE205", "GE207"),
    "GE115": ("GE202", "GE204", "GE205", "GE207"),
    "GE118": ("GE101", "GE106", "GE115", "GE202", "GE205"),
    "GE301": ("GE302",),
    "GE303": ("GE101", "GE103", "GE202", "GE205"),
    "GE401": ("GE112",),
}
"""What follows from a broken rule, and is not reported beside it."""

ORDER = {"error": 0, "warning": 1, "info": 2}


def judge(evidence: Evidence) -> list[Finding]:
    """Return the findings of all rules but those that follow from others, errors first."""
    return errors_first(without_consequences(apply(RULES.values(), evidence)))


def apply(rules: Iterable[Rule], evidence: Evidence) -> list[Finding]:
    """Return the findings of all rules that have what they need."""
    return [
        finding
        for rule in rules
        if not _missing(rule.needs, evidence)
        for finding in findings_of(rule, evidence)
    ]


def without_consequences(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out what follows from other findings."""
    roots = {finding.code for finding in findings} & SUPPRESSES.keys()
    consequences = {code for root in roots for code in SUPPRESSES[root]}
    return [finding for finding in findings if finding.code not in consequences]


def errors_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of reports: by severity, then by code and subject."""
    return sorted(findings, key=lambda finding: (ORDER[finding.severity], finding.code, finding.subject))


def findings_of(rule: Rule, evidence: Evidence) -> list[Finding]:
    """Return what one rule finds: a finding for each subject, with the number of its occurrences."""
    groups: dict[str, list[Occurrence]] = {}
    for occurrence in rule.check(evidence):
        groups.setdefault(occurrence.subject, []).append(occurrence)
    return [_finding(rule, group) for group in groups.values()]


def _finding(rule: Rule, group: Sequence[Occurrence]) -> Finding:
    first = min(group, key=lambda occurrence: ORDER[occurrence.severity or rule.severity])
    return Finding(
        rule.code,
        rule.name,
        first.severity or rule.severity,
        first.subject,
        first.place,
        first.expected,
        first.got,
        first.hint,
        rule.fix,
        rule.adapter if first.adapter is None else first.adapter,
        wrapper="",
        count=len(group),
    )


def not_exercised(evidence: Evidence, rules: Sequence[Rule]) -> list[NotExercised]:
    """Return what was not there to see, with the rules among ``rules`` that therefore prove nothing."""
    gaps: dict[str, list[str]] = {}
    if evidence.tape.cut_off:
        gaps[f"the run was cut off after {len(evidence.steps)} steps: {evidence.tape.cut_off}"] = []
    for rule in rules:
        reason = _missing((*rule.needs, *rule.inconclusive_without), evidence)
        if reason:
            gaps.setdefault(reason, []).append(rule.code)
    return [NotExercised(reason, tuple(codes)) for reason, codes in gaps.items()]


def _missing(needs: Sequence[str], evidence: Evidence) -> str:
    """Return why the first of ``needs`` that is not there is missing, or an empty text."""
    return next(filter(None, map(evidence.missing, needs)), "")
