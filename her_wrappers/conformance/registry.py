"""Registry of the rules on replay buffers, and functions that rules share."""

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
"""Code of the rule that reports the exceptions of a scenario, by the name of the scenario.

HB001 reports the exceptions of the other scenarios.
"""

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
    scenario: str = "",
) -> Callable[[Check], Check]:
    """Return a decorator that registers a function as a rule on replay buffers.

    Args:
        code: ``HB`` and three digits; the first digit is the family.
        name: Name of the rule in words.
        severity: Severity of a violation.
        meaning: The fault in one sentence.
        fix: The fix in one line, without a period.
        wrong: Example of code that violates the rule.
        right: The example with the fault corrected.
        source: Source of the requirement, such as a paper or an issue.
        offers: Keys of `OFFERS`; the rule applies only to adapters that offer all of these.
        implies: Codes of rules whose findings follow from a finding of this rule, and are not reported
            together with it.
        scenario: Name of the scenario whose exceptions this rule reports; may be empty.
    """
    if scenario:
        REPORTS_FAILURES[scenario] = code
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


def correct_rows(scenario: str) -> Check:
    """Return a check that yields the exception of a scenario, or its first row with a wrong aspect.

    Args:
        scenario: Name of a scenario whose result is `DecodedRows` or has them in the attribute ``rows``.
    """

    def check(results: ScenarioResults) -> Iterator[Violation]:
        """The scenario raises no exception, and its rows are correct."""
        yield from failures_of(results, scenario)
        result = results.of(scenario)
        if result is not None:
            yield from first_wrong_row_by_aspect(results, getattr(result, "rows", result))

    return check


def failures_of(results: ScenarioResults, scenario: str) -> Iterator[Violation]:
    """Yield a violation if the adapter raised an exception in a scenario.

    Args:
        results: Results of the adapter; the scenario is run if it was not run before.
        scenario: Name of the scenario.
    """
    results.of(scenario)
    failure = results.failures.get(scenario)
    if failure and failure.code == "HB001":
        yield Violation(failure.got, failure.expected, scenario)


def first_wrong_row_by_aspect(results: ScenarioResults, rows: DecodedRows) -> Iterator[Violation]:
    """Yield a violation for the first wrong row of the first aspect that has wrong rows.

    Aspects in `ScenarioResults.broken_aspects` are not checked, since other rules report them.

    Args:
        results: Results of the adapter.
        rows: Rows to check.
    """
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
    """Yield a violation for the first wrong row, with the number of wrong rows as its hint.

    Args:
        rows: Sampled rows.
        wrong: (B,) bool, whether each row is wrong.
        expected: Expected value, for the report.
        subject: Subject of the violation.
    """
    for i in np.flatnonzero(wrong)[:1]:
        often = f"{int(wrong.sum())} of {len(rows)} rows"
        yield Violation(rows.describe(int(i)), expected, subject=subject, hint=often)
