"""Each faulty buffer gets a finding of its own rule; correct buffers get no errors or warnings."""

import itertools
from collections import Counter

import pytest

from her_wrappers.conformance import REPLAY_RULES, check_replay, parametrize_with_rules
from her_wrappers.conformance.adapter import OFFERS, STRATEGIES
from her_wrappers.conformance.adapters.device import OursOnDevice
from her_wrappers.conformance.adapters.ours import Ours
from her_wrappers.conformance.adapters.sb3 import OursForStableBaselines3
from her_wrappers.conformance.driver import BufferDriver
from tests.support.replay_specimens import (  # noqa: F401
    faulty_fields,
    faulty_goals,
    faulty_storage,
    faulty_uses,
    faulty_values,
)
from tests.support.replay_specimens.correct import CORRECT, RewardsRowByRow
from tests.support.replay_specimens.faulty_uses import NumberOfDemonstrationsIsRoundedDown
from tests.support.replay_specimens.reference import FAULTS, Reference

FAILURES = {"HB001", "HB002", "HB003", "HB004"}
"""Rules on adapters, tested in test_bad_adapters.py."""


def ours(strategy, termination):
    """Return an adapter, which does not offer infos if rewards decide about terminations."""
    offers = OFFERS.keys() - set(STRATEGIES) | {strategy}
    offers -= {"infos"} if termination == "success" else set()
    return type(f"Ours-{strategy}-{termination}", (Ours,), {"termination": termination, "offers": offers})


class OnDeviceBySuccess(OursOnDevice):
    termination = "success"
    offers = OursOnDevice.offers - {"infos"}


OURS = [
    Ours,
    OursForStableBaselines3,
    OursOnDevice,
    OnDeviceBySuccess,
    *map(ours, STRATEGIES, itertools.cycle(("success", "keep", "never"))),
]
IN_DEFAULT_TESTS = ("Full", "Demonstrated", "RelabelsWhenStoring", "Ring", "WithoutReplacement", "Ours")
TIERS = dict.fromkeys(IN_DEFAULT_TESTS, ()) | {"OnDeviceBySuccess": pytest.mark.campaign}
"""Marks of the tests of correct buffers; the others are slow."""

SEEDS = [pytest.param(seed, marks=pytest.mark.campaign) for seed in range(30)]


CONSEQUENCES = {
    "EndEndsAllEpisodes": {"HB724"},  # later steps continue an episode that has ended
    "EnvironmentsAreJoined": {"HB725"},
    "BothFlagsStoreTwice": {"HB720"},  # eviction counts rows that are stored twice
    "NewTransitionsAreNeverSampled": {"HB805"},
    "OneRandomNumberPerBatch": {"HB190"},
}
"""Findings of other families that a fault causes too, by the name of the buffer."""


def assert_clean(adapter, seed=0):
    report = check_replay(adapter, seed=seed)
    assert not report.of_severity("error", "warning"), report.text()
    assert not report.not_exercised


def sample_fewer(patch, part=3):
    """Let each scenario sample a third of its batches, or another part, which shows most faults."""
    batches = BufferDriver.batches
    fewer = lambda self, count, rows=128: batches(self, -(-count // part), rows)  # noqa: E731
    patch.setattr(BufferDriver, "batches", fewer)


def assert_explained(faults, seed=0):
    for specimen, code in faults:
        found = {each.code for each in check_replay(specimen, seed=seed).of_severity("error", "warning")}
        if specimen is NumberOfDemonstrationsIsRoundedDown:  # in batches of one row, none is ever drawn
            found = {"HB901" if each == "HB770" else each for each in found}
        assert code in found, (specimen, found)
        consequences = CONSEQUENCES.get(specimen.__name__, set())
        assert {each[2] for each in found - consequences} == {code[2]}, (specimen, found)


def cases():
    """Return a case for each fault; those after the first two of a rule that needs many rows are slow."""
    number = Counter()
    for specimen, code in FAULTS:
        number[code] += 1
        marks = pytest.mark.slow if number[code] > 2 and code.startswith("HB2") else ()
        yield pytest.param(specimen, code, id=f"{specimen.__name__}-{code}", marks=marks)


@pytest.mark.parametrize(("specimen", "code"), [*cases()])
def test_each_fault_is_found_by_its_own_rule(specimen, code, monkeypatch):
    with monkeypatch.context() as patch:
        sample_fewer(patch, 3 if code[2] in "289" or code[3] == "9" else 6)  # statistics need more rows
        found = check_replay(specimen, select=[code]).codes  # runs only the scenarios of this rule
    assert found or check_replay(specimen, select=[code]).codes


@pytest.mark.parametrize(
    "adapter",
    [
        pytest.param(each, id=each.__name__, marks=TIERS.get(each.__name__, pytest.mark.slow))
        for each in [*CORRECT, *OURS]
    ],
)
def test_correct_buffers_get_neither_errors_nor_warnings(adapter, monkeypatch):
    with monkeypatch.context() as patch:
        sample_fewer(patch)
        report = check_replay(adapter)
    assert not report.not_exercised
    if report.of_severity("error", "warning"):  # a statistic of few rows
        assert_clean(adapter)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))  # for processes that run tests in parallel
def test_each_fault_is_found_and_explained_by_no_unrelated_aspect(part):
    """A complete check of the first buffer that breaks each rule, of each fifth rule."""
    first = {code: (specimen, code) for specimen, code in reversed(FAULTS)}
    assert_explained([*first.values()][::5][part::2])


@pytest.mark.parametrize("seed", SEEDS)
def test_findings_do_not_depend_on_the_seed(seed):
    assert_explained(FAULTS, seed)
    for adapter in [*CORRECT, Ours]:
        assert_clean(adapter, seed)


def test_slow_rewards_get_a_note():
    assert check_replay(RewardsRowByRow, select=["HB390"]).codes == ["HB390"]


def test_every_statistical_rule_and_every_aspect_and_scenario_has_a_specimen():
    found = {code for _, code in FAULTS}
    number = {code: int(code[3:]) for code in REPLAY_RULES}
    aspects = {code for code in REPLAY_RULES if code[2] in "13457" and number[code] < 80}
    assert found >= REPLAY_RULES.keys() - aspects - FAILURES - {"HB390"}
    assert {code[2] for code in found} >= set("13457")
    simple, others = range(1, 9), (20, 21, 22, 23, 24, 25, 27, 28, 30, 31, 50)
    assert {number[code] for code in found & aspects} >= {*simple, *others}


class OnlyFuture(Reference):
    """A correct buffer with the first strategy and no further feature."""

    offers = frozenset({"future"})
    save = load = None


def test_each_rule_is_a_test_case_which_is_skipped_if_its_feature_is_not_offered():
    name, cases = parametrize_with_rules(OnlyFuture).mark.args
    assert (name, len(cases)) == ("finding", len(REPLAY_RULES))
    assert {case.values for case in cases} == {(None,)}
    skipped = {case.id[:5] for case in cases if case.marks}
    assert {"HB141", "HB193", "HB601", "HB730", "HB350"} <= skipped
    assert skipped.isdisjoint({"HB101", "HB201", "HB501"})
