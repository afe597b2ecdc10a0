"""Judgment of evidence: applies rules, groups violations into findings, and removes implied findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from her_wrappers.checker.registry import RULES, Rule, Violation
from her_wrappers.checker.report import Finding, NotExercised

if TYPE_CHECKING:
    from her_wrappers.checker.evidence import Evidence

ORDER = {"error": 0, "warning": 1, "info": 2}


def judge(evidence: Evidence, rules: Sequence[Rule]) -> list[Finding]:
    """Return the findings of ``rules``, errors first.

    Rules that imply one of ``rules`` are applied too. Their findings are not returned, but they remove the
    findings that they imply. No other rule is applied.

    Args:
        evidence: Evidence of a run.
        rules: Rules to report.
    """
    codes = {rule.code for rule in rules}
    applied = [rule for rule in RULES.values() if rule.code in codes or codes.intersection(rule.implies)]
    findings = without_implied(apply(applied, evidence))
    return errors_first(finding for finding in findings if finding.code in codes)


def apply(rules: Iterable[Rule], evidence: Any) -> list[Finding]:
    """Return the findings of the rules whose needs the evidence meets."""
    return [
        finding
        for rule in rules
        if not _missing(rule.needs, evidence)
        for finding in findings_of(rule, evidence)
    ]


def without_implied(findings: Sequence[Finding], rules: Mapping[str, Rule] = RULES) -> list[Finding]:
    """Return the findings that no other finding implies.

    Args:
        findings: Findings of one check.
        rules: Rules of the findings, by code.
    """
    implied = {code for finding in findings for code in rules[finding.code].implies}
    return [finding for finding in findings if finding.code not in implied]


def errors_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings sorted by severity, errors first, then by code and subject."""
    return sorted(findings, key=lambda finding: (ORDER[finding.severity], finding.code, finding.subject))


def findings_of(rule: Rule, evidence: Any) -> list[Finding]:
    """Return one finding for each subject of the violations of a rule."""
    groups: dict[str, list[Violation]] = {}
    for violation in rule.check(evidence):
        groups.setdefault(violation.subject, []).append(violation)
    return [_finding(rule, group) for group in groups.values()]


def _finding(rule: Rule, group: Sequence[Violation]) -> Finding:
    first = min(group, key=lambda violation: ORDER[violation.severity or rule.severity])
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
    """Return the reason of an early stop, and each unmet need with the rules among ``rules`` that have it."""
    gaps = unmet_needs(evidence, rules)
    if evidence.rollout.cut_off:
        cut = f"the run stopped early, after {len(evidence.steps)} steps: {evidence.rollout.cut_off}"
        return [NotExercised(cut, ()), *gaps]
    return gaps


def unmet_needs(evidence: Any, rules: Iterable[Rule]) -> list[NotExercised]:
    """Return the reasons of unmet needs, each with the rules among ``rules`` that have this need."""
    gaps: dict[str, list[str]] = {}
    for rule in rules:
        reason = _missing((*rule.needs, *rule.inconclusive_without), evidence)
        if reason:
            gaps.setdefault(reason, []).append(rule.code)
    return [NotExercised(reason, tuple(codes)) for reason, codes in gaps.items()]


def _missing(needs: Sequence[str], evidence: Any) -> str:
    """Return the reason why the first unmet need is not met, or an empty text."""
    return next(filter(None, map(evidence.missing, needs)), "")
