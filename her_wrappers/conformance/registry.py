"""The rules on replay buffers, and the decorator that registers a function as a rule."""

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
"""Scenarios whose exceptions are reported by a separate rule; HB001 reports all other exceptions."""


def _with_variants(scenario: str) -> list[str]:
    """Return ``scenario`` and the names of its variants that exist in `SCENARIOS`."""
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
    """Return a decorator that registers a function as a rule.

    Args:
        code: ``HB`` and three digits; the first digit is the family.
        name: Name of the rule in words; by default, the name of the function with hyphens.
        severity: Severity of a violation.
        scenario: Name of the scenario whose result is the argument of the function; the function is not
            called if the scenario failed. If None, the argument is the `ScenarioResults` of all scenarios.
        strategies: Goal selection strategies to judge instead of ``scenario``. For each one that the adapter
            offers, the function is called with rows that were sampled with this strategy.
        reports_exceptions: Whether this rule, and not HB001, reports the exceptions in ``scenario``.
        offers: Keys of `OFFERS` that the rule needs, in addition to the needs of the scenario or strategy.
        source: Source of the requirement, such as a paper or an issue.
        **texts: Other fields of `Rule`, such as ``meaning`` and ``fix``.
    """
    names: dict[str | None, str] = {f"strategy {strategy}": strategy for strategy in strategies} or {
        scenario: ""
    }
    judged = [(each, subject) for name, subject in names.items() if name for each in _with_variants(name)]
    if scenario:
        offers = (*offers, *SCENARIOS[scenario].offers, *(strategies if len(strategies) == 1 else ()))
        texts["inconclusive_without"] = tuple(each for each, _ in judged)
    if reports_exceptions:
        REPORTED_SCENARIOS.update(each for each, _ in judged)

    def add(function: Check) -> Check:
        def check(results: Any) -> Iterator[Violation]:
            for each, subject in judged:
                result, failure = results.of(each), results.failures.get(each)
                if result is not None:
                    violations = function(result)
                    yield from (replace(found, subject=subject or found.subject) for found in violations)
                elif reports_exceptions and failure and failure.code == "HB001":
                    yield Violation(str(failure), f"scenario {each!r}")

        words = name or function.__name__.replace("_", "-")
        function_of_results = check if scenario else function
        REPLAY_RULES.rule(code, words, severity, source=source, needs=offers, **texts)(function_of_results)
        return function

    return add
