"""The scoreboard is rendered from stored reports of pinned versions, and every failure is reproduced."""

from __future__ import annotations

import ast
import re

from benchmarks.scoreboard import ADAPTERS, PAGE, REPRODUCTIONS, ROOT, read_reports, render
from her_wrappers.conformance.registry import REPLAY_RULES

REPORTS = read_reports()


def test_the_page_is_what_the_reports_say():
    assert PAGE.read_text() == render(REPORTS)


def test_reports_are_of_the_pinned_versions():
    pins = dict(
        re.findall(r"^([\w-]+)==(\S+)", (ROOT / "benchmarks" / "requirements-replay.txt").read_text(), re.M)
    )
    for report in REPORTS.values():
        name, _, version = report["environment"].partition(", ")[0].rpartition(" ")
        if name:
            assert version == pins[name.lower()]


def test_our_buffers_are_clean():
    for adapter in ("ours:Ours", "sb3:OursForStableBaselines3"):
        assert REPORTS[adapter]["findings"] == []


def test_every_failure_of_a_peer_is_reproduced_by_a_test():
    for adapter in ADAPTERS:
        for finding in REPORTS[adapter]["findings"]:
            assert finding["code"] in REPLAY_RULES
            path, _, name = REPRODUCTIONS[adapter][finding["code"]].partition("::")
            functions = [getattr(node, "name", "") for node in ast.parse((ROOT / path).read_text()).body]
            assert name in functions
