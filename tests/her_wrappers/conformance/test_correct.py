"""Correct buffers get neither errors nor warnings."""

from __future__ import annotations

import time

import pytest

from her_wrappers.conformance import check_replay, parametrize_with_rules
from her_wrappers.conformance.adapter import OFFERS, STRATEGIES
from her_wrappers.conformance.adapters.ours import Ours
from tests.support.replay_specimens.reference import Reference


def assert_clean(adapter, seed=0):
    report = check_replay(adapter, seed=seed)
    assert not report.findings, report.text()
    assert not report.not_exercised


def test_the_check_of_our_buffer_takes_less_than_30_seconds():
    start = time.process_time()
    assert_clean(Ours)
    assert time.process_time() - start < 30


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_our_buffer_is_clean_with_every_strategy(strategy):
    offers = (OFFERS.keys() - set(STRATEGIES)) | {strategy}
    assert_clean(type("Ours", (Ours,), {"offers": offers}))


@pytest.mark.parametrize("termination", ["recompute", "success", "keep", "never"])
def test_our_buffer_is_clean_with_every_termination(termination):
    assert_clean(ours_with(termination, OFFERS.keys()))


@pytest.mark.slow
@pytest.mark.parametrize("termination", ["success", "keep", "never"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_our_buffer_is_clean_with_every_strategy_and_termination(strategy, termination):
    assert_clean(ours_with(termination, (OFFERS.keys() - set(STRATEGIES)) | {strategy}))


def ours_with(termination, offers):
    """Return an adapter, which does not offer infos if rewards decide about terminations."""
    absent = {"infos"} if termination == "success" else set()
    return type("Ours", (Ours,), {"termination": termination, "offers": offers - absent})


def test_a_reference_of_lists_and_dictionaries_is_clean():
    assert_clean(Reference)


@parametrize_with_rules(Reference)
def test_each_rule_is_a_test_case(finding):
    assert finding is None
