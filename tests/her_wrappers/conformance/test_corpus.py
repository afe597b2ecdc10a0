"""Each faulty buffer gets a finding of its own rule only; correct buffers get no errors or warnings."""

from __future__ import annotations

import pytest

from her_wrappers.conformance import check_replay
from her_wrappers.conformance.adapters.ours import Ours
from her_wrappers.conformance.registry import REPLAY_RULES
from tests.support.replay_specimens import faulty_goals, faulty_storage, faulty_values
from tests.support.replay_specimens.correct import CORRECT, RewardsRowByRow

FAULTS = [*faulty_goals.FAULTS, *faulty_values.FAULTS, *faulty_storage.FAULTS]
FAILURES = {"HB001", "HB002", "HB003", "HB004", "HB307"}
"""Rules tested elsewhere: in test_bad_adapters.py, and HB307 (severity info) below with a correct buffer."""


def assert_found_alone(specimen, code, seed=0):
    report = check_replay(specimen, seed=seed)
    errors = {finding.code for finding in report.of_severity("error", "warning")}
    assert errors == {code}, report.text()


def assert_silent(adapter, seed=0):
    report = check_replay(adapter, seed=seed)
    assert not report.of_severity("error", "warning"), report.text()
    assert not report.not_exercised


@pytest.mark.parametrize(
    ("specimen", "code"), FAULTS, ids=[f"{each.__name__}-{code}" for each, code in FAULTS]
)
def test_each_fault_is_found_by_its_own_rule(specimen, code):
    assert check_replay(specimen, select=[code]).codes == [code]


@pytest.mark.parametrize("adapter", CORRECT, ids=lambda each: each.__name__)
def test_correct_buffers_get_neither_errors_nor_warnings(adapter):
    assert_silent(adapter)


SEEDS = [
    pytest.param(0, marks=pytest.mark.slow),
    *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(1, 30)),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_fault_is_the_only_finding_with_every_seed(seed):
    for specimen, code in FAULTS:
        assert_found_alone(specimen, code, seed)


@pytest.mark.parametrize("seed", SEEDS[1:])
def test_correct_buffers_are_clean_with_every_seed(seed):
    for adapter in [*CORRECT, Ours]:
        assert_silent(adapter, seed)


def test_slow_rewards_get_a_note():
    assert check_replay(RewardsRowByRow, select=["HB307"]).codes == ["HB307"]


def test_every_rule_has_a_specimen():
    assert {code for _, code in FAULTS} == REPLAY_RULES.keys() - FAILURES
    assert len(FAULTS) >= 60
    assert len(CORRECT) >= 10
