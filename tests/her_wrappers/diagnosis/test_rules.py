"""Each rule finds its planted cause and names it first; healthy trainings have no finding."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from her_wrappers.diagnosis import diagnose
from her_wrappers.diagnosis.diagnose import judge_case
from her_wrappers.diagnosis.facts import Facts
from her_wrappers.diagnosis.registry import DIAGNOSIS_RULES, Case, TrainingOptions
from her_wrappers.recording.episodes import Episodes
from tests.support.bundled import VARIANTS
from tests.support.diagnosis import (
    PLANTED,
    STUCK,
    NeverSuccess,
    NoEffect,
    PointEnv,
    Unreachable,
    healthy,
    history,
)

ENVIRONMENT_RULES = {"GD211": NoEffect, "GD212": NeverSuccess}


def report_on(episodes, rows=(), **options):
    case = Case(Facts.of([Episodes.of(episodes)]), TrainingOptions(**options), rows)
    return judge_case("episodes", case, list(DIAGNOSIS_RULES.values()), seed=None)


def errors(report):
    return {finding.code for finding in report.of_severity("error")}


@pytest.mark.parametrize("code", PLANTED)
def test_a_planted_cause_is_found_and_named_first(code):
    episodes, options = PLANTED[code]()
    rows = options.pop("history", ())
    report = report_on(healthy() if episodes is None else episodes, rows, **options)
    assert report.findings, report
    assert report.findings[0].code == code, report
    assert report.findings[0].severity == DIAGNOSIS_RULES[code].severity
    assert errors(report) <= {code}, report


@pytest.mark.parametrize(("code", "env"), ENVIRONMENT_RULES.items())
def test_a_planted_cause_in_an_environment_is_found_and_named_first(code, env):
    report = diagnose(env(), max_steps=1000)
    assert report.findings[0].code == code, report
    assert errors(report) == {code}


def test_every_rule_has_a_planted_cause():
    assert PLANTED.keys() | ENVIRONMENT_RULES.keys() == DIAGNOSIS_RULES.keys()
    assert len(DIAGNOSIS_RULES) >= 18


def test_a_healthy_training_has_no_finding():
    report = report_on(healthy(), history(), gamma=0.98, clip_targets=True, batch_size=128)
    assert not report.findings, report
    assert {code for gap in report.not_exercised for code in gap.codes} == {"GD211", "GD212"}


def test_a_healthy_environment_has_no_finding():
    assert not diagnose(PointEnv, gamma=0.98, clip_targets=True).findings


@pytest.mark.parametrize(("env_id", "options"), VARIANTS[:7], ids=[env_id for env_id, _ in VARIANTS[:7]])
@pytest.mark.parametrize("seed", [0, 1])
def test_bundled_environments_have_no_error_and_at_most_one_warning(env_id, options, seed):
    report = diagnose(env_id, gamma=0.98, clip_targets=True, seed=seed)
    assert not errors(report), report
    assert len(report.findings) <= 1, report


@pytest.mark.parametrize(("temperature", "severity"), [(0.006, None), (0.001, "warning"), (5e-5, "error")])
@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_a_low_temperature_is_a_warning_before_it_is_an_error(temperature, severity, scale):
    episodes = [replace(each, rewards=scale * each.rewards) for each in healthy()]
    report = report_on(episodes, history(**STUCK, temperature=[scale * temperature] * 10))
    found = [finding.severity for finding in report.findings if finding.code == "GD603"]
    assert found == ([severity] if severity else [])


def test_findings_about_exploration_by_random_policies_are_warnings():
    [finding] = diagnose(Unreachable).findings
    assert (finding.code, finding.severity) == ("GD201", "warning")


def test_a_solved_training_has_no_finding_about_exploration():
    episodes, _ = PLANTED["GD102"]()
    solved = history(success_rate=[0.5] * 9 + [1.0])
    assert not report_on(episodes, solved).findings


def test_the_thresholds_of_shares_need_ten_episodes():
    episodes, _ = PLANTED["GD102"]()
    report = report_on(episodes[:9])
    assert not report.findings
    [gap] = [gap for gap in report.not_exercised if "GD102" in gap.codes]
    assert gap.reason == "9 episodes, and rules about shares of episodes need 10"


def test_the_kind_of_goals_that_is_never_reached_is_named_by_component_and_value():
    episodes, _ = PLANTED["GD207"]()
    [finding] = report_on(episodes).findings
    assert finding.subject == "desired_goal[0]"
    assert re.fullmatch(
        r"0\.0% successes in \d+ of 50 episodes with a value above 0\.[56]\d*, 100\.0% in the others",
        finding.got,
    )


@pytest.mark.parametrize("rule", DIAGNOSIS_RULES.values(), ids=DIAGNOSIS_RULES)
def test_every_rule_has_an_explanation_a_threshold_and_examples(rule):
    assert rule.meaning.endswith(".")
    assert not rule.fix.endswith(".")
    assert rule.threshold
    assert not rule.threshold.endswith(".")
    assert rule.wrong != rule.right
    assert rule.check.__doc__
    assert set(rule.implies) <= DIAGNOSIS_RULES.keys() - {rule.code}
