"""The scoreboard shows stored reports of pinned versions; failures have tests, offers have quotations."""

import ast
import re

import pytest

from benchmarks.scoreboard import ADAPTERS, FAULTS, PAGE, REPRODUCTIONS, ROOT, read_reports, render
from benchmarks.scoreboard_claims import CLAIMS, NOT_OFFERED, OF_THE_INTERFACE
from her_wrappers.conformance import REPLAY_RULES
from her_wrappers.conformance.adapter import OFFERS

REPORTS = read_reports()


def test_the_page_is_what_the_reports_say():
    assert PAGE.read_text() == render(REPORTS)


def test_reports_are_of_the_pinned_versions():
    pins = dict(
        re.findall(r"^([\w-]+)==(\S+)", (ROOT / "benchmarks" / "requirements-replay.txt").read_text(), re.M)
    )
    for report in REPORTS.values():
        name, _, version = report["target"].partition(", ")[0].rpartition(" ")
        if name:
            assert version == pins[name.lower()]


def test_our_buffers_are_clean():
    for adapter in ("ours:Ours", "sb3:OursForStableBaselines3", "rllib:OursForRLlib"):
        assert REPORTS[adapter]["findings"] == []


def test_every_failure_of_a_peer_is_reproduced_by_a_test():
    for adapter in ADAPTERS:
        for finding in REPORTS[adapter]["findings"]:
            assert finding["code"] in REPLAY_RULES.keys() & FAULTS.keys()
            path, _, name = REPRODUCTIONS[adapter][finding["code"]].partition("::")
            functions = [getattr(node, "name", "") for node in ast.parse((ROOT / path).read_text()).body]
            assert name in functions


@pytest.mark.parametrize("adapter", CLAIMS)
def test_each_offer_is_quoted_or_has_a_reason_why_it_is_absent(adapter):
    quoted = {offer for claim in CLAIMS[adapter] for offer in claim.offers}
    absent = {offer for offers in NOT_OFFERED[adapter] for offer in offers}
    assert not quoted & absent
    assert quoted | absent | set(OF_THE_INTERFACE) == OFFERS.keys()
    not_offered = {gap["reason"] for gap in REPORTS[adapter]["not_offered"]}
    assert not_offered <= {OFFERS[offer] for offer in absent}
