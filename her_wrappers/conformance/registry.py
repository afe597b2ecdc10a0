"""The rules on replay buffers, and the decorator that adds a function to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from her_wrappers.conformance.scenarios import SCENARIOS
from her_wrappers.rules import Check, RuleSet, Severity, Violation

PAPER = "Hindsight Experience Replay, arXiv 1707.01495"

REPLAY_RULES = RuleSet()
"""All rules on replay buffers, by code."""

REPORTED_SCENARIOS: set[str] = set()
"""Scenarios whose exceptions a rule of their own reports; HB001 reports those of the others."""


def replay_rule(
    code: str,
    name: str,
    severity: Severity = "error",
    *,
    scenario: str = "",
    scenarios: tuple[str, ...] = (),
    reports_exceptions: bool = False,
    offers: tuple[str, ...] = (),
    source: str = PAPER,
    **texts: Any,
) -> Callable[[Check], Check]:
    """Return a decorator that adds a function to the rules.

    Args:
        code: ``HB`` and three digits; the first digit is the family.
        name: Name of the rule in words.
        severity: Severity of a violation.
        scenario: Name of the scenario whose result is the argument of the function; the function is not
            called if the scenario failed.
        scenarios: Names of the scenarios that a function uses whose argument is all `ScenarioResults`.
        reports_exceptions: Whether this rule, and not HB001, reports the exceptions in ``scenario``.
        offers: Keys of `OFFERS` that the rule needs in addition to those that ``scenario`` needs.
        source: Source of the requirement, such as a paper or an issue.
        **texts: Other fields of `Rule`, such as ``meaning`` and ``fix``.
    """
    if reports_exceptions:
        REPORTED_SCENARIOS.add(scenario)

    def add(function: Check) -> Check:
        def check(results: Any) -> Iterator[Violation]:
            result = results.of(scenario) if scenario else results
            failure = results.failures.get(scenario)
            if result is not None:
                yield from function(result)
            elif reports_exceptions and failure and failure.code == "HB001":
                yield Violation(failure.message, f"scenario {scenario!r}")

        REPLAY_RULES.rule(
            code,
            name,
            severity,
            source=source,
            needs=(*offers, *(SCENARIOS[scenario].offers if scenario else ())),
            inconclusive_without=(scenario,) if scenario else scenarios,
            **texts,
        )(check)
        return function

    return add


def correct_rows(result: Any) -> Iterator[Violation]:
    """Yield the first wrong row of a scenario, whose result is the rows or has them as its attribute."""
    yield from getattr(result, "rows", result).first_violation()
