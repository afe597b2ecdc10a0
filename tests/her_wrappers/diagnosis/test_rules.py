"""Each rule finds its planted cause and names it first; healthy runs have no finding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from her_wrappers.diagnosis import DIAGNOSIS_RULES, diagnose
from her_wrappers.diagnosis.diagnose import judge
from her_wrappers.diagnosis.facts import Facts
from her_wrappers.recording.episodes import Episodes
from tests.support.bundled import VARIANTS
from tests.support.diagnosis import (
    FAULTY_ENVS,
    PLANTED,
    STUCK,
    Unreachable,
    healthy,
    history,
    with_observations,
)


def report_on(episodes, **options):
    return judge(Facts.of("episodes", [Episodes.of(episodes)], **options), DIAGNOSIS_RULES.values())


def errors(report):
    return {finding.code for finding in report.of_severity("error")}


@pytest.mark.parametrize("code", sorted(DIAGNOSIS_RULES.keys() - FAULTY_ENVS.keys()))
def test_a_planted_cause_is_found_and_named_first(code):
    episodes, options = PLANTED[code]()
    report = report_on(episodes, **options)
    first = report.findings[0]
    assert (first.code, first.severity) == (code, DIAGNOSIS_RULES[code].severity), report
    assert errors(report) <= {code}, report


@pytest.mark.parametrize(("code", "env"), FAULTY_ENVS.items())
def test_a_planted_cause_in_an_environment_is_the_only_error(code, env):
    assert errors(diagnose(env(), max_steps=1000)) == {code}


def test_a_healthy_run_has_no_finding():
    report = report_on(healthy(), history=history(), gamma=0.98, clip_targets=True, batch_size=128)
    assert not report.findings, report
    assert {code for gap in report.not_exercised for code in gap.codes} == FAULTY_ENVS.keys()


@pytest.mark.parametrize(("env_id", "options"), VARIANTS[:7], ids=[env_id for env_id, _ in VARIANTS[:7]])
def test_bundled_environments_have_no_error_and_at_most_one_warning(env_id, options):
    report = diagnose(env_id, gamma=0.98, clip_targets=True, max_steps=1500)
    assert not errors(report), report
    assert len(report.findings) <= 1, report


@pytest.mark.parametrize(("temperature", "severity"), [(0.006, None), (0.001, "warning"), (5e-5, "error")])
def test_a_low_temperature_relative_to_rewards_is_a_warning_before_it_is_an_error(temperature, severity):
    episodes = [replace(each, rewards=0.1 * each.rewards) for each in healthy()]
    report = report_on(episodes, history=history(**STUCK, temperature=[0.1 * temperature] * 10))
    found = [finding.severity for finding in report.findings if finding.code == "GD603"]
    assert found == ([severity] if severity else [])


def test_findings_about_exploration_by_random_policies_are_warnings():
    [finding] = diagnose(Unreachable, max_steps=1000).findings
    assert (finding.code, finding.severity) == ("GD201", "warning")


def test_a_solved_run_has_no_finding_about_exploration():
    episodes, _ = PLANTED["GD102"]()
    assert not report_on(episodes, history=history(success_rate=[0.5] * 9 + [1.0])).findings


def test_episodes_that_succeed_at_the_end_count_as_solved():
    report = report_on(healthy(act=lambda rng, position, goal: (goal - position) / 0.1))
    assert "GD101" in {code for gap in report.not_exercised for code in gap.codes}


def test_successes_that_come_late_are_a_warning_about_the_time_limit():
    way = {
        "start": lambda rng: np.array([0, rng.random()]),
        "goal": lambda rng: np.array([0.9, rng.random()]),
    }
    straight = healthy(
        30, 17, act=lambda rng, position, goal: np.clip((goal - position) / 0.06, -1, 1), **way
    )
    report = report_on(straight + healthy(10, 17, seed=1, act=lambda rng, *_: rng.uniform(-1, 1, 2), **way))
    assert [(each.code, each.severity) for each in report.findings] == [("GD402", "warning")]


def test_an_observation_that_is_constant_beside_others_is_a_warning():
    episodes = with_observations(healthy(), angle=lambda each, i: np.ones(len(each) + 1))
    [finding] = report_on(episodes).findings
    assert (finding.code, finding.severity, finding.subject) == ("GD501", "warning", "angle")


def test_large_observations_are_not_a_fault_if_the_agent_normalizes_them():
    episodes, _ = PLANTED["GD503"]()
    assert not report_on(episodes, normalizes=True).findings


def test_sparse_rewards_tell_the_successes_if_flags_were_not_recorded():
    flagged = report_on(healthy())
    assert report_on([replace(each, infos={}) for each in healthy()]) == flagged
    shifted = report_on([replace(each, infos={}, rewards=each.rewards + 1) for each in healthy()])
    assert shifted.successes == flagged.successes
    dense = report_on([replace(each, infos={}, rewards=each.rewards / 2) for each in healthy()])
    assert {"GD103", "GD404"} <= {code for gap in dense.not_exercised for code in gap.codes}


def test_the_thresholds_of_shares_need_ten_episodes():
    episodes, _ = PLANTED["GD102"]()
    report = report_on(episodes[:9])
    assert not report.findings
    [gap] = [gap for gap in report.not_exercised if "GD102" in gap.codes]
    assert gap.reason.startswith("9 episodes")


def test_the_kind_of_goals_that_is_never_reached_is_named_by_component_and_value():
    episodes, _ = PLANTED["GD207"]()
    [finding] = report_on(episodes).findings
    assert finding.subject == "desired_goal[0]"
    assert "above 0.6" in finding.message
