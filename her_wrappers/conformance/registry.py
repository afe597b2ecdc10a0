"""The rules on replay buffers by their codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from her_wrappers.checker.registry import Check, Rule, Severity, Violation, rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from her_wrappers.conformance.results import ScenarioResults
    from her_wrappers.conformance.rows import DecodedRows

REPLAY_RULES: dict[str, Rule] = {}
"""All rules on replay buffers, by code."""

REPORTS_FAILURES: dict[str, str] = {}
"""The rules that report the exceptions of scenarios; those of others are reported by HB001."""

PAPER = "Hindsight Experience Replay, arXiv 1707.01495"


def replay_rule(
    code: str,
    name: str,
    severity: Severity = "error",
    *,
    meaning: str,
    fix: str,
    wrong: str,
    right: str,
    source: str = PAPER,
    offers: tuple[str, ...] = (),
    implies: tuple[str, ...] = (),
) -> Callable[[Check], Check]:
    """Register a rule on replay buffers.

    Args:
        code: ``HB`` and three digits; the first digit is the family.
        name: The code in words.
        severity: Severity of a violation.
        meaning: The fault in one sentence.
        fix: The remedy in one line.
        wrong: A short program that breaks the rule.
        right: The same, repaired.
        source: Where the requirement comes from.
        offers: Keys of `OFFERS` without which the rule does not apply.
        implies: Codes of rules whose findings follow from a finding of this rule.
    """
    return rule(
        code,
        name,
        severity,
        meaning=meaning,
        fix=fix,
        wrong=wrong,
        right=right,
        source=source,
        needs=offers,
        implies=implies,
        rules=REPLAY_RULES,
    )


def scenario_rule(
    scenario: str,
    code: str,
    name: str,
    *,
    meaning: str,
    fix: str,
    wrong: str,
    right: str,
    source: str = PAPER,
    offers: tuple[str, ...] = (),
    implies: tuple[str, ...] = (),
) -> None:
    """Register a rule that every row of a scenario is right, and that the scenario does not fail."""

    def explained(results: ScenarioResults) -> Iterator[Violation]:
        """Every row is an added transition, with an allowed goal, and its reward and termination."""
        yield from failures_of(results, scenario)
        result = results.of(scenario)
        if result is not None:
            yield from first_wrong_row_by_aspect(results, getattr(result, "rows", result))

    REPORTS_FAILURES[scenario] = code
    replay_rule(
        code,
        name,
        meaning=meaning,
        fix=fix,
        wrong=wrong,
        right=right,
        source=source,
        offers=offers,
        implies=implies,
    )(explained)


def failures_of(results: ScenarioResults, scenario: str) -> Iterator[Violation]:
    """Yield the exception of a scenario, if one was raised."""
    results.of(scenario)
    failure = results.failures.get(scenario)
    if failure and failure.code == "HB001":
        yield Violation(failure.got, failure.expected, scenario)


def first_wrong_row_by_aspect(results: ScenarioResults, rows: DecodedRows) -> Iterator[Violation]:
    """Yield the first row that is wrong in an aspect that is right in the first scenarios."""
    for aspect, wrong in rows.wrong_by_aspect.items():
        if aspect not in results.broken_aspects:
            for i in np.flatnonzero(wrong)[:1].tolist():
                expected, got = rows.expected(aspect, i)
                yield Violation(
                    got, expected, rows.describe(i), hint=f"{int(wrong.sum())} of {len(rows)} rows"
                )
                return


def first_wrong_row(
    rows: DecodedRows, wrong: np.ndarray, expected: str, subject: str = ""
) -> Iterator[Violation]:
    """Yield the first of the wrong rows, and how many there are."""
    for i in np.flatnonzero(wrong)[:1]:
        often = f"{int(wrong.sum())} of {len(rows)} rows"
        yield Violation(rows.describe(int(i)), expected, subject=subject, hint=often)
