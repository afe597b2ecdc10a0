"""The checker is judged by what it catches: every fault, by its own rule, and nothing on what is correct."""

from __future__ import annotations

import pytest

from her_wrappers.checker import check_goal_env
from her_wrappers.checker.registry import RULES
from tests.her_wrappers.checker.specimens.broken import FAULTS
from tests.her_wrappers.checker.specimens.correct import CORRECT

MAX_STEPS = 400


def assert_found_alone(specimen, code, seed):
    report = check_goal_env(specimen, max_steps=MAX_STEPS, seed=seed)
    errors = {finding.code for finding in report.of_severity("error")}
    assert code in report.codes, report.text()
    assert errors <= {code}, report.text()


def assert_silent(factory, seed):
    report = check_goal_env(factory, max_steps=MAX_STEPS, seed=seed)
    assert not report.of_severity("error", "warning"), report.text()


names = [f"{specimen.__name__}-{code}" for specimen, code in FAULTS]


@pytest.mark.parametrize(("specimen", "code"), FAULTS, ids=names)
def test_each_fault_is_found_by_its_own_rule_and_brings_no_other_error(specimen, code):
    assert_found_alone(specimen, code, seed=0)


@pytest.mark.parametrize("factory", CORRECT.values(), ids=CORRECT)
def test_correct_environments_get_neither_errors_nor_warnings(factory):
    assert_silent(factory, seed=0)


SEEDS = [
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8)),
    *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(8, 30)),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_verdict_does_not_depend_on_the_seed(seed):
    for specimen, code in FAULTS:
        assert_found_alone(specimen, code, seed)
    for factory in CORRECT.values():
        assert_silent(factory, seed)


def test_every_rule_has_a_specimen():
    assert {code for _, code in FAULTS} == set(RULES)
    assert len(FAULTS) >= 60
    assert len(CORRECT) >= 20
