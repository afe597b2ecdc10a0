"""Rules on rows: each aspect of the rows of each scenario is a rule, which reports the first wrong row.

The code of a rule consists of ``HB``, the digit of its aspect, and the number of its scenario.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from her_wrappers.conformance.registry import PAPER, REPLAY_RULES
from her_wrappers.conformance.results import ScenarioResults
from her_wrappers.conformance.scenarios import EQUAL_EPISODES, SCENARIOS
from her_wrappers.rules import Violation

INTERFACE = "the interface ReplayAdapter of her_wrappers.conformance"


class Aspect(NamedTuple):
    """The part of a row that a rule compares with the oracle."""

    digit: int  # first digit of the codes of its rules, their family
    meaning: str
    source: str


ASPECTS = {
    "goal": Aspect(
        1,
        "A goal is not the desired goal of the step or one that the strategy may choose, or it changed",
        f"{PAPER}, section 4.5; algorithm 1 for the next observation: (s||g', a, r', s'||g')",
    ),
    "reward": Aspect(
        3,
        "The reward is not the recorded one (original rows) or that of compute_reward (relabeled rows)",
        f"{PAPER}, algorithm 1: r' := r(s_t, a_t, g')",
    ),
    "end": Aspect(
        4,
        "terminated, truncated or discount is wrong for the step and the goal of the row",
        "stable-baselines3 issue 627; Pardo et al. 2018, Time Limits, arXiv 1712.00378",
    ),
    "transition": Aspect(
        5,
        "An observation, achieved goal or action differs from the step that was added",
        "Gymnasium, Env.step: one call returns the values of one transition",
    ),
    "stored": Aspect(
        7,
        "Sampling fails, transitions that are stored are never sampled, or others are",
        "Lin 1992; Mnih et al. 2015, DQN: uniform samples of the most recent transitions",
    ),
}
"""Aspects of rows by name."""


def _add_rules() -> None:
    """Add a rule for each aspect and each scenario with rows; variants of a scenario share their rules."""
    names: dict[int, list[str]] = {}
    for name, scenario in SCENARIOS.items():
        names.setdefault(scenario.number, []).append(name)
    for variants in names.values():
        scenario = SCENARIOS[variants[0]]
        if scenario.number < 80:
            for key, aspect in ASPECTS.items():
                _add_rule(key, aspect, variants, scenario)


def _add_rule(key: str, aspect: Aspect, variants: list[str], scenario: Any) -> None:
    def check(results: ScenarioResults) -> Iterator[Violation]:
        for name in variants:
            results.of(name)  # runs the scenario
            yield from results.faults.get((key, name), ())
            failure = results.failures.get(name)
            if key == "stored" and failure and failure.code == "HB001" and name != EQUAL_EPISODES:
                yield Violation(str(failure), f"scenario {name!r}")

    REPLAY_RULES.rule(
        f"HB{aspect.digit}{scenario.number:02}",
        f"{key} {variants[0]}".replace(" ", "-"),
        meaning=f"{aspect.meaning} (scenario {variants[0]!r}).",
        fix=scenario.fix,
        source=aspect.source,
        needs=tuple(sorted(scenario.offers)),
        inconclusive_without=tuple(variants),
    )(check)


_add_rules()


# --- the adapter works ----------------------------------------------------------------------------


def _failure_rule(code: str, name: str, meaning: str, fix: str) -> None:
    """Register the rule ``code``, which reports scenarios whose `ScenarioError` has the same code."""

    def check(results: ScenarioResults) -> Iterator[Violation]:
        results.of(EQUAL_EPISODES)  # runs the scenario, which may fail
        for scenario, failure in results.failures.items():
            if failure.code == code and (code != "HB001" or scenario not in _REPORTED):
                yield Violation(str(failure), subject=f"scenario {scenario!r}")

    REPLAY_RULES.rule(code, name, meaning=meaning, fix=fix, source=INTERFACE)(check)


_REPORTED = {name for name, each in SCENARIOS.items() if each.number < 80 and name != EQUAL_EPISODES}

_failure_rule(
    "HB001",
    "adapter-raises",
    "The buffer or its adapter raises an exception.",
    "call her_wrappers.conformance.scenarios.run_scenario(NAME, Adapter), and read the traceback",
)
_failure_rule(
    "HB002",
    "batch-keys",
    "A batch is not a dict, or does not contain a required key.",
    "return all keys that ReplayAdapter.sample lists",
)
_failure_rule(
    "HB003",
    "batch-shape",
    "A value of a batch has the wrong shape, or is not an array of numbers.",
    "for batch size B, return NumPy arrays of shape (B, ...), with rewards and flags of shape (B,)",
)
_failure_rule(
    "HB004",
    "not-completed",
    "A scenario did not end within the time limit.",
    "look for an infinite loop, such as a search for a row that can be relabeled",
)
