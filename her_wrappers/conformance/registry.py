"""The rules on replay buffers: one for each aspect of the rows of each scenario; a decorator for others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING

from her_wrappers.conformance.scenarios import SCENARIOS, Result
from her_wrappers.rules import RuleSet, Severity, Violation

if TYPE_CHECKING:
    from her_wrappers.conformance.check import ScenarioResults

PAPER = "Hindsight Experience Replay, arXiv 1707.01495"

REPLAY_RULES = RuleSet(chains=[("HB803", "HB801", "HB804 HB805"), ("HB803", "HB204", "HB201", "HB202")])


def replay_rule(
    code: str,
    scenarios: tuple[str, ...],
    *,
    fix: str,
    source: str = PAPER,
    severity: Severity = "error",
    offers: tuple[str, ...] = (),
) -> Callable[[Callable[[Result], Iterator[Violation]]], None]:
    """Return a decorator that registers a function of the `Result` of each of ``scenarios`` as a rule.

    ``offers`` are keys of `OFFERS` that the rule needs, in addition to the common needs of the scenarios.
    """
    needs = frozenset.intersection(*(SCENARIOS[each].offers for each in scenarios))

    def add(function: Callable[[Result], Iterator[Violation]]) -> None:
        @wraps(function)
        def check(results: ScenarioResults) -> Iterator[Violation]:
            for name in scenarios:
                for found in function(results.results[name]) if name in results.results else ():
                    yield replace(found, place=found.place or f"scenario {name!r}" * (len(scenarios) > 1))

        REPLAY_RULES.rule(
            code,
            severity=severity,
            fix=fix,
            source=source,
            needs=(*offers, *sorted(needs)),
            inconclusive_without=scenarios,
        )(check)

    return add


# --- each aspect of the rows of each scenario -----------------------------------------------------

ASPECTS = {
    "goal": (
        1,
        "desired_goal is neither that of the step nor allowed by the strategy, or next_desired_goal is wrong",
        f"{PAPER}, section 4.5; algorithm 1 for the next observation: (s||g', a, r', s'||g')",
    ),
    "reward": (
        3,
        "The reward is not the recorded one (original rows), or not that of compute_reward (relabeled rows)",
        f"{PAPER}, algorithm 1: r' := r(s_t, a_t, g')",
    ),
    "end": (
        4,
        "terminated, truncated or discount is wrong for the step and the goal of the row",
        "stable-baselines3 issue 627; Pardo et al. 2018, Time Limits, arXiv 1712.00378",
    ),
    "transition": (
        5,
        "An observation, achieved goal or action differs from the step that was added",
        "Gymnasium, Env.step: one call returns the values of one transition",
    ),
    "stored": (
        7,
        "Sampling fails, stored transitions are never sampled, or transitions that are not stored are",
        "Lin 1992; Mnih et al. 2015, DQN: uniform samples of the most recent transitions",
    ),
}
"""Digit, meaning and source of the rules on each aspect of rows; codes are ``HB``, digit, scenario number."""

ERRORS = {
    "adapter-raises": (
        "The buffer or its adapter raises an exception.",
        "call her_wrappers.conformance.scenarios.run_scenario(NAME, Adapter), and read the traceback",
    ),
    "batch-keys": (
        "A batch is not a dict, or does not contain a required key.",
        "return all keys that ReplayAdapter.sample lists",
    ),
    "batch-shape": (
        "A value of a batch has the wrong shape, or is not an array of numbers.",
        "for batch size B, return NumPy arrays of shape (B, ...), with rewards and flags of shape (B,)",
    ),
    "not-completed": (
        "A scenario did not end within the time limit.",
        "look for an infinite loop, such as a search for a row that can be relabeled",
    ),
}
"""Meaning and fix of the rules HB001 to HB004 on errors of the adapter, by name."""


def _found(aspect: str, scenarios: tuple[str, ...], results: ScenarioResults) -> Iterator[Violation]:
    for name in scenarios:
        yield from results.faults.get((aspect, name), ())


for _number, (_name, (_meaning, _fix)) in enumerate(ERRORS.items(), 1):
    _rule = REPLAY_RULES.rule(f"HB00{_number}", _name, meaning=_meaning, fix=_fix, source="ReplayAdapter")
    _rule(partial(_found, f"HB00{_number}", tuple(SCENARIOS)))

for _name, _scenario in SCENARIOS.items():
    for _aspect, (_digit, _meaning, _source) in ASPECTS.items() if _scenario.number < 80 else ():
        REPLAY_RULES.rule(
            f"HB{_digit}{_scenario.number:02}",
            f"{_aspect} {_name}".replace(" ", "-"),
            meaning=f"{_meaning} (scenario {_name!r}).",
            fix=_scenario.fix,
            source=_source,
            needs=tuple(sorted(_scenario.offers)),
            inconclusive_without=(_name,),
        )(partial(_found, _aspect, (_name,)))
