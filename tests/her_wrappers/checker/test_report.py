"""Report: text, JSON and GitHub annotations."""

from __future__ import annotations

import json

import pytest

from her_wrappers import GoalEnvError
from her_wrappers.checker.report import Finding, NotExercised, Report, _property

FINDING = Finding(
    code="GE101",
    name="reward-mismatch",
    severity="error",
    subject="",
    place="episode 0, step 3",
    expected="reward 0.0",
    got="-1.0,\n100%: a lot",
    hint="a constant offset of -1.0 explains it",
    fix="compute it once",
    adapter="",
    wrapper="TransformReward (layer 1 from the outside)",
    count=7,
)
REPORT = Report(
    environment="Reach",
    seed=0,
    steps=30,
    episodes=2,
    successes=1,
    findings=(FINDING,),
    not_exercised=(NotExercised("no episode ended in 30 steps", ("GE205",)),),
)


def test_text_has_place_count_expected_got_cause_and_fix():
    assert REPORT.text().split("\n") == [
        "Reach: 1 error, 0 warnings in 30 steps of 2 episodes with 1 successful step (seed 0)",
        "error GE101 reward-mismatch: episode 0, step 3 (7 times): expected reward 0.0, got -1.0,",
        "100%: a lot; a constant offset of -1.0 explains it; "
        "caused by TransformReward (layer 1 from the outside).",
        "    fix: compute it once",
        "not exercised: no episode ended in 30 steps (inconclusive: GE205)",
    ]
    assert str(REPORT) == REPORT.text()


def test_json_contains_all_attributes():
    read = json.loads(REPORT.json())
    assert read["findings"][0]["count"] == 7
    assert read["not_exercised"] == [{"reason": "no episode ended in 30 steps", "codes": ["GE205"]}]
    assert (read["environment"], read["steps"], read["seed"]) == ("Reach", 30, 0)


def test_github_gets_one_escaped_command_per_finding():
    (command,) = REPORT.github().split("\n")
    assert command.startswith("::error title=GE101 reward-mismatch::Reach: episode 0, step 3 (7 times): ")
    assert "-1.0,%0A100%25: a lot" in command


def test_records_cannot_be_changed():
    with pytest.raises(AttributeError):
        FINDING.count = 8


def test_an_empty_report_raises_nothing():
    empty = Report("Reach", 0, 30, 2, 1, (), ())
    empty.raise_if_errors(strict=True)
    assert empty.github() == ""
    with pytest.raises(GoalEnvError, match="expected reward"):
        REPORT.raise_if_errors()


def test_properties_of_workflow_commands_are_escaped():
    assert _property("100%: a, b") == "100%25%3A a%2C b"
