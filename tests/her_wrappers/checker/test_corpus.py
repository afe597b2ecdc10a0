"""The checker is judged by what it catches: every fault, by its own rule, and nothing on what is correct."""

from __future__ import annotations

import pytest

from her_wrappers.checker import check_goal_env
from her_wrappers.checker.registry import RULES
from tests.her_wrappers.checker.specimens.broken import FAULTS

MAX_STEPS = 600


def verdict(specimen, seed):
    report = check_goal_env(specimen, max_steps=MAX_STEPS, seed=seed)
    return report.codes, {finding.code for finding in report.of_severity("error")}, report


def assert_found_alone(specimen, code, seed):
    codes, errors, report = verdict(specimen, seed)
    assert code in codes, report.text()
    assert errors <= {code}, report.text()


@pytest.mark.parametrize(("specimen", "code"), FAULTS, ids=lambda part: getattr(part, "__name__", part))
def test_each_fault_is_found_by_its_own_rule_and_brings_no_other_error(specimen, code):
    assert_found_alone(specimen, code, seed=0)


def test_every_rule_has_a_specimen():
    assert {code for _, code in FAULTS} == set(RULES)
    assert len(FAULTS) >= 60
