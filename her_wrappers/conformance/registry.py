"""The rules on replay buffers, and the decorator that registers a function as a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from her_wrappers.conformance.scenarios import EQUAL_EPISODES, SCENARIOS
from her_wrappers.rules import Check, RuleSet, Severity, Violation

PAPER = "Hindsight Experience Replay, arXiv 1707.01495"

REPLAY_RULES = RuleSet()
"""All rules on replay buffers, by code."""


def replay_rule(
    code: str,
    name: str = "",
    *,
    severity: Severity = "error",
    scenarios: tuple[str, ...] = (EQUAL_EPISODES,),
    on_results: bool = False,
    offers: tuple[str, ...] = (),
    source: str = PAPER,
    **texts: Any,
) -> Callable[[Check], Check]:
    """Return a decorator that registers a function as a rule.

    Args:
        code: ``HB`` and three digits; the first digit is the family.
        name: Name of the rule in words; by default, the name of the function with hyphens.
        severity: Severity of a violation.
        scenarios: Names of the scenarios that the rule needs. For each one that did not fail, the function
            is called with its `Result`.
        on_results: Whether the function is called once instead, with the `ScenarioResults` of all scenarios.
        offers: Keys of `OFFERS` that the rule needs, in addition to the common needs of the scenarios.
        source: Source of the requirement, such as a paper or an issue.
        **texts: The fields ``meaning`` and ``fix`` of `Rule`.
    """
    needs = set.intersection(*(set(SCENARIOS[each].offers) for each in scenarios))

    def add(function: Check) -> Check:
        def check(results: Any) -> Iterator[Violation]:
            for each in scenarios:
                if (result := results.of(each)) is not None:
                    yield from function(result)

        REPLAY_RULES.rule(
            code,
            name or function.__name__.replace("_", "-"),
            severity,
            source=source,
            needs=(*offers, *sorted(needs)),
            inconclusive_without=scenarios,
            **texts,
        )(function if on_results else check)
        return function

    return add
