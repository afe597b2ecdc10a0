"""The rules on replay buffers, and the decorator that adds a function to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from her_wrappers.conformance.scenarios import EQUAL_EPISODES, LONG_EPISODES, SCENARIOS, USED
from her_wrappers.rules import Check, RuleSet, Severity, Violation

PAPER = "Hindsight Experience Replay, arXiv 1707.01495"

REPLAY_RULES = RuleSet()
"""All rules on replay buffers, by code."""

REPORTED_SCENARIOS: set[str] = set()
"""Scenarios whose exceptions a rule of their own reports; HB001 reports those of the others."""


def _with_variants(scenario: str) -> list[str]:
    """Return the name of a scenario, and those of its variants, which the same rules judge."""
    return [name for name in (scenario, scenario + LONG_EPISODES, scenario + USED) if name in SCENARIOS]


def replay_rule(
    code: str,
    name: str = "",
    *,
    severity: Severity = "error",
    scenario: str | None = EQUAL_EPISODES,
    strategies: tuple[str, ...] = (),
    reports_exceptions: bool = False,
    offers: tuple[str, ...] = (),
    source: str = PAPER,
    **texts: Any,
) -> Callable[[Check], Check]:
    """Return a decorator that adds a function to the rules.

    Args:
        code: ``HB`` and three digits; the first digit is the family.
        name: Name of the rule in words; by default, the name of the function with hyphens.
        severity: Severity of a violation.
        scenario: Name of the scenario whose result is the argument of the function; the function is not
            called if the scenario failed. None if the argument is all `ScenarioResults`.
        strategies: Goal selection strategies. If given, the argument of the function is rows in episodes of
            equal length, and the function is called for each of these strategies that the adapter offers.
        reports_exceptions: Whether this rule, and not HB001, reports the exceptions in ``scenario``.
        offers: Keys of `OFFERS` that the rule needs, without those of ``scenario`` and of a single strategy.
        source: Source of the requirement, such as a paper or an issue.
        **texts: Other fields of `Rule`, such as ``meaning`` and ``fix``.
    """
    if scenario and reports_exceptions:
        REPORTED_SCENARIOS.update(_with_variants(scenario))
    if scenario:
        offers = (*offers, *SCENARIOS[scenario].offers)
        names = [scenario, *(f"strategy {strategy}" for strategy in strategies)]
        texts["inconclusive_without"] = tuple(each for name in names for each in _with_variants(name))
    if len(strategies) == 1:
        offers = (*offers, *strategies)

    def add(function: Check) -> Check:
        def check(results: Any) -> Iterator[Violation]:
            for strategy in strategies:
                for each in _with_variants(f"strategy {strategy}"):
                    rows = results.of(each)
                    violations = () if rows is None else function(rows)
                    yield from (replace(violation, subject=strategy) for violation in violations)
            if strategies:
                return
            for variant in _with_variants(scenario) if scenario else [None]:
                result = results.of(variant) if variant else results
                failure = results.failures.get(variant)
                if result is not None:
                    yield from function(result)
                elif reports_exceptions and failure and failure.code == "HB001":
                    yield Violation(str(failure), f"scenario {variant!r}")

        words = name or function.__name__.replace("_", "-")
        REPLAY_RULES.rule(code, words, severity, source=source, needs=offers, **texts)(check)
        return function

    return add
