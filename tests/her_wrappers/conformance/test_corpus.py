"""Each faulty buffer gets a finding of its own rule; correct buffers get no errors or warnings."""

import pytest

from her_wrappers.conformance import REPLAY_RULES, check_replay, parametrize_with_rules
from her_wrappers.conformance.adapter import STRATEGIES
from her_wrappers.conformance.adapters.device import OursOnDevice
from her_wrappers.conformance.adapters.ours import Ours
from her_wrappers.conformance.adapters.sb3 import OursForStableBaselines3
from her_wrappers.conformance.check import ScenarioResults
from her_wrappers.conformance.scenarios import EQUAL_EPISODES
from tests.support.replay_specimens import (  # noqa: F401
    faulty_goals,
    faulty_priorities,
    faulty_storage,
    faulty_values,
)
from tests.support.replay_specimens.correct import CORRECT
from tests.support.replay_specimens.reference import FAULTS, Reference, check_quickly, fewer_rows

FAILURES = {"HB001", "HB002", "HB003", "HB004"}
"""Rules on adapters, tested in test_bad_adapters.py."""


def ours(base, termination, strategies=STRATEGIES):
    """Return an adapter, which does not offer infos if rewards decide about terminations."""
    offers = base.offers - set(STRATEGIES) | set(strategies)
    offers -= {"infos"} if termination == "success" else set()
    name = f"{base.__name__}-{termination}-{len(strategies)}"
    return type(name, (base,), {"termination": termination, "offers": offers})


OURS = [
    Ours,
    ours(Ours, "success", ["final"]),
    ours(Ours, "keep", ["geometric"]),
    ours(OursForStableBaselines3, "recompute", ["future", "final"]),
    ours(OursOnDevice, "recompute", ["future", "random"]),
]
"""Adapters of our buffers, of which some use only a few strategies, which saves time."""
IN_DEFAULT_TESTS = ("Full", "Unusual", "Ring", "PrioritizedCopies", "Ours")
"""Tests of these correct buffers are quick; the others are slow."""

SEEDS = [pytest.param(seed, marks=pytest.mark.campaign) for seed in range(30)]

CONSEQUENCES = {
    "EnvironmentsAreJoined": {"HB725"},
    "BothFlagsStoreTwice": {"HB720"},  # eviction counts rows that are stored twice
    "NewTransitionsAreNeverSampled": {"HB805"},
    "OneRandomNumberPerBatch": {"HB190"},
}
"""Findings of other families that a fault causes too, by the name of the buffer."""


def assert_clean(report):
    assert not report.of_severity("error", "warning"), report.text()
    assert not report.not_exercised


def assert_explained(specimen, code, report):
    found = {each.code for each in report.of_severity("error", "warning")}
    assert code in found, (specimen, found)
    consequences = CONSEQUENCES.get(specimen.__name__, set())
    assert {each[2] for each in found - consequences} == {code[2]}, (specimen, found)


@pytest.mark.parametrize(
    ("specimen", "code", "scenario"),
    [pytest.param(*each, id=f"{each[0].__name__}-{each[1]}") for each in FAULTS],
)
def test_each_fault_is_found_by_its_own_rule(specimen, code, scenario):
    results = ScenarioResults(specimen, seed=0, max_seconds=60)
    is_statistical = code[2] in "2789" or code[3] == "9"  # and needs all rows
    with fewer_rows(1, 1 if scenario == EQUAL_EPISODES else 12) if is_statistical else fewer_rows(12):
        results.run({scenario})
    assert REPLAY_RULES.judge(results, [REPLAY_RULES[code]])


@pytest.mark.parametrize(
    "adapter",
    [
        pytest.param(
            each, id=each.__name__, marks=() if each.__name__ in IN_DEFAULT_TESTS else pytest.mark.slow
        )
        for each in [*CORRECT, *OURS]
    ],
)
def test_correct_buffers_get_neither_errors_nor_warnings(adapter):
    report = check_quickly(adapter, 4 if adapter in CORRECT else 8)
    if report.of_severity("error", "warning"):  # a statistic of few rows
        report = check_replay(adapter)
    assert_clean(report)


@pytest.mark.slow
def test_each_fault_is_found_and_explained_by_no_unrelated_aspect():
    """All scenarios run with the first buffer that breaks each rule, of each twentieth rule."""
    first = {code: (specimen, code) for specimen, code, _ in reversed(FAULTS)}
    for specimen, code in [*first.values()][::20]:
        assert_explained(specimen, code, check_quickly(specimen, 3))


@pytest.mark.parametrize("seed", SEEDS)
def test_findings_do_not_depend_on_the_seed(seed):
    for specimen, code, _ in FAULTS:
        assert_explained(specimen, code, check_replay(specimen, seed=seed))
    for adapter in [*CORRECT, Ours, OursForStableBaselines3, ours(OursOnDevice, "success")]:
        assert_clean(check_replay(adapter, seed=seed))


def test_relabeling_that_depends_on_the_batch_only_is_not_said_to_depend_on_the_step():
    report = check_replay(faulty_goals.EpisodesAreRelabeledTogether, select=["HB201", "HB204", "HB206"])
    assert report.codes == ["HB206"]


def test_every_statistical_rule_and_every_aspect_and_scenario_has_a_specimen():
    found = {code for _, code, _ in FAULTS}
    number = {code: int(code[3:]) for code in REPLAY_RULES}
    aspects = {code for code in REPLAY_RULES if code[2] in "13457" and number[code] < 80}
    assert found >= REPLAY_RULES.keys() - aspects - FAILURES
    assert {code[2] for code in found} >= set("13457")
    simple, others = range(1, 9), (20, 21, 22, 23, 24, 25, 27, 28, 30, 31, 50)
    assert {number[code] for code in found & aspects} >= {*simple, *others}


class OnlyFuture(Reference):
    """A correct buffer with the first strategy and no further feature."""

    offers = frozenset({"future"})
    save = load = None


def test_each_rule_is_a_test_case_which_is_skipped_if_its_feature_is_not_offered():
    with fewer_rows(6):
        name, cases = parametrize_with_rules(OnlyFuture).mark.args
    assert (name, len(cases)) == ("finding", len(REPLAY_RULES))
    assert {case.values for case in cases} == {(None,)}
    skipped = {case.id[:5] for case in cases if case.marks}
    assert {"HB141", "HB193", "HB601", "HB730", "HB350"} <= skipped
    assert skipped.isdisjoint({"HB101", "HB201", "HB501"})
