"""Each rule finds its planted cause and names it first; healthy runs have no finding."""

from dataclasses import replace

import numpy as np
import pytest

from her_wrappers.diagnosis import DIAGNOSIS_RULES, diagnose
from her_wrappers.diagnosis.facts import Facts
from her_wrappers.recording.episodes import Episodes
from tests.support.bundled import VARIANTS
from tests.support.diagnosis import (
    FAULTY_ENVS,
    PLANTED,
    STUCK,
    Unreachable,
    WrongSign,
    at_random,
    healthy,
    history,
    judged,
    missed,
    tiled,
    towards_goal,
    with_observations,
)

DEFAULTS = {"relabeled_share": 0.8, "learning_rate": 1e-3}


def report_on(episodes, **options):
    return diagnose(Facts.of("episodes", [Episodes.of(episodes)], **options))


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
    report = report_on(
        healthy(), history=history(), gamma=0.98, clip_targets=True, batch_size=128, **DEFAULTS
    )
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


@pytest.mark.parametrize(("select", "severity"), [(["GD201"], "warning"), ([], "error")])
def test_findings_about_exploration_by_random_policies_are_warnings(select, severity):
    """A warning that implies an error, here about the time limit, becomes an error."""
    [finding] = diagnose(Unreachable, max_steps=1000, select=select).findings
    assert (finding.code, finding.severity) == ("GD201", severity)


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
    assert gap.reason.startswith("the target has 9 episodes")


def test_the_kind_of_goals_that_is_never_reached_is_named_by_component_and_value():
    episodes, _ = PLANTED["GD207"]()
    [finding] = report_on(episodes).findings
    assert finding.subject == "desired_goal[0]"
    assert "above 0.6" in finding.message


@pytest.mark.parametrize(
    ("options", "subject", "severity"),
    [
        ({}, None, None),
        ({"relabeled_share": 0.5, "learning_rate": 3e-4, "gamma": 0.995}, None, None),
        ({"relabeled_share": 0.1}, "goal_selection_strategy", "warning"),
        ({"learning_rate": 0.5}, "agent.learning_rate", "error"),
        ({"learning_rate": 1e-7}, "agent.learning_rate", "error"),
        ({"learning_rate": 0.03}, "agent.learning_rate", "warning"),
        ({"gamma": 1.0}, "gamma", "error"),
        ({"gamma": 0.9995}, "gamma", "warning"),
    ],
)
def test_options_far_from_their_defaults_are_named(options, subject, severity):
    found = [
        (each.subject, each.severity) for each in report_on(healthy(), **{**DEFAULTS, **options}).findings
    ]
    assert found == ([(subject, severity)] if subject else [])


def test_options_of_a_run_that_succeeds_are_no_finding():
    report = report_on(healthy(), history=history(success_rate=[1.0] * 10), relabeled_share=0.0)
    assert not report.findings, report


def in_disc(radius):
    """Return a function that samples points with at least a share of 0.8 of a radius around (0.5, 0.5)."""

    def sample(rng):
        angle, length = rng.uniform(0, 2 * np.pi), radius * rng.uniform(0.8, 1)
        return 0.5 + length * np.array([np.cos(angle), np.sin(angle)])

    return sample


def test_goals_around_the_reach_of_an_arm_are_outside_though_the_box_contains_many():
    """The arm reaches a disc of radius 0.5, and goals are in a ring around it."""

    def act(rng, position, goal):
        step = np.clip((goal - position) / 0.06, -1, 1)
        beyond = np.linalg.norm(position + 0.06 * step - 0.5) > 0.5
        return (0.5 - position) * rng.uniform(0, 2) if beyond else step + rng.normal(0, 0.3, 2)

    report = report_on(healthy(200, goal=in_disc(0.75), start=in_disc(0.5), act=act))
    assert report.findings[0].code == "GD201", report
    inside = report_on(healthy(200, goal=in_disc(0.5), start=lambda rng: rng.uniform(0.45, 0.55, 2), act=act))
    assert "GD201" not in inside.codes, inside


def test_a_third_of_goals_out_of_reach_is_a_warning_if_the_others_are_reached():
    def goal(rng):
        return rng.uniform(0, 1, 2) + (rng.random() < 0.3) * np.array([1.2, 0])

    finding = report_on(healthy(100, goal=goal, act=towards_goal)).findings[0]
    assert (finding.code, finding.severity) == ("GD201", "warning")


def test_one_start_in_all_episodes_is_a_note_until_the_run_succeeds():
    episodes = healthy(start=lambda rng: np.array([0.5, 0.5]))
    [finding] = report_on(episodes).findings
    assert (finding.code, finding.severity, finding.subject) == ("GD505", "info", "start")
    assert not report_on(episodes, history=history(success_rate=[1.0] * 10)).findings


def test_one_start_and_one_goal_look_like_one_seed():
    episodes = healthy(start=lambda rng: np.array([0.3, 0.5]), goal=lambda rng: np.array([0.8, 0.5]))
    [finding] = report_on(episodes).findings
    assert finding.code == "GD202"
    assert "as if the seed were the same" in finding.message


def test_a_radius_of_half_a_step_or_more_is_no_finding():
    assert not report_on(judged(healthy(), radius=0.04)).findings
    assert "GD208" in report_on(judged(healthy(act=towards_goal, step=0.2), radius=0.02)).codes


def test_an_object_that_trembles_is_not_touched_but_the_actions_are_large_enough():
    def trembles(each, i):
        return tiled(each, "achieved_goal") + np.random.default_rng(i).normal(0, 1e-4, (len(each) + 1, 2))

    assert report_on(judged(with_observations(healthy(), achieved_goal=trembles))).codes[0] == "GD102"


def test_small_actions_are_named_also_with_other_observations_that_change():
    episodes = with_observations(
        PLANTED["GD105"]()[0], clock=lambda each, i: np.linspace(0, 1, len(each) + 1)
    )
    assert report_on(episodes).findings[0].code == "GD105"


@pytest.mark.parametrize("kind", ["steering", "delayed"])
def test_actions_whose_effect_is_indirect_have_an_effect(kind):
    """The second component turns a car that drives forwards and backwards, or acts one step later."""
    rng = np.random.default_rng(0)
    episodes = []
    for each in healthy(60):
        actions = rng.uniform(-1, 1, (len(each), 2))
        speed = np.cumsum(actions[:, 0])
        turn = speed * actions[:, 1] if kind == "steering" else np.roll(actions[:, 1], 1)
        changes = np.stack([speed, np.cumsum(turn)])
        state = np.concatenate([np.zeros((1, 2)), changes.T])
        episodes.append(
            replace(each, actions=actions, observations={**each.observations, "observation": state})
        )
    assert "GD106" not in report_on(episodes).codes


def test_actions_that_are_constant_in_each_episode_prove_nothing_about_their_effect():
    rng = np.random.default_rng(0)
    episodes = [
        replace(each, actions=np.column_stack([each.actions, np.full(len(each), rng.random())]))
        for each in healthy()
    ]
    assert not report_on(episodes).findings


def test_the_component_without_effect_is_named():
    episodes, _ = PLANTED["GD106"]()
    [finding] = report_on(episodes).findings
    assert finding.subject == "action[2]"


@pytest.mark.parametrize("rewards", [(0.0, -1.0), (1.0, 0.0)])
def test_a_wrong_sign_of_sparse_rewards_is_found_without_flags(rewards):
    missed, reached = rewards
    episodes = [
        replace(each, infos={}, rewards=np.where(each.infos["is_success"], reached, missed))
        for each in healthy()
    ]
    assert report_on(episodes).codes == ["GD304"]


def test_a_wrong_sign_in_an_environment_without_flags_is_found():
    assert errors(diagnose(WrongSign(), max_steps=1000)) == {"GD304"}


@pytest.mark.parametrize("code", ["GD404", None])
def test_a_time_limit_that_terminates_is_found_beside_episodes_that_an_epoch_cuts(code):
    cut = [each for number in range(12) for each in missed(healthy(1, 10, seed=number, act=at_random))]
    whole = missed(healthy(40, act=at_random))
    whole = [replace(each, terminated=bool(code), truncated=not code) for each in whole]
    assert [each for each in report_on(whole + cut).codes if each == "GD404"] == ([code] if code else [])


def test_nan_in_the_data_hides_no_finding_about_the_run():
    episodes, _ = PLANTED["GD502"]()
    report = report_on(episodes, **PLANTED["GD603"]()[1])
    assert {"GD502", "GD603"} <= set(report.codes)


def test_the_last_finite_value_of_a_loss_tells_what_came_before_nan():
    values = [*np.geomspace(1, 1e6, 9), np.nan]
    assert report_on(healthy(), history=history(q_mean=values), gamma=0.98).codes == ["GD602", "GD608"]


@pytest.mark.parametrize(
    ("options", "summary"),
    [
        ({"history": history(37, success_rate=[0.0] * 37)}, "success rate 0.00 in the last of 37"),
        ({}, "in the last quarter of 40 episodes"),
    ],
)
def test_the_report_has_the_success_rate_and_what_was_not_checked(options, summary):
    report = report_on(healthy(), **options)
    assert summary in report.summary()
    assert "not exercised: the environment itself" in report.text()


def test_unknown_success_is_not_zero_successes():
    report = report_on([replace(each, infos={}, rewards=each.rewards / 2) for each in healthy()])
    assert report.successes is None
    assert "an unknown number of successful steps" in report.summary()
    assert "success rate unknown" in report.summary()


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        (lambda achieved, desired: desired, ["GD506"]),
        (lambda achieved, desired: np.linalg.norm(desired - achieved, axis=1, keepdims=True), ["GD506"]),
        (lambda achieved, desired: 2 * (achieved - desired) + 1, ["GD506"]),
        (lambda achieved, desired: 2 * achieved + 1, []),
    ],
)
def test_goals_inside_any_part_of_the_observation_are_found(values, codes):
    episodes = with_observations(
        healthy(),
        sensors=lambda each, i: values(each.observations["achieved_goal"], each.observations["desired_goal"]),
    )
    assert report_on(episodes).codes == codes


def test_successes_by_chance_near_the_start_do_not_hide_a_discount_that_is_too_short():
    near = healthy(12, goal=lambda rng: rng.uniform(0, 0.1, 2), start=lambda rng: rng.uniform(0, 0.3, 2))
    far = missed(healthy(40, goal=lambda rng: np.array([0.9, rng.random()]), start=lambda rng: np.zeros(2)))
    assert "GD401" in report_on(near + far, gamma=0.7).codes
    assert "GD401" not in report_on(near + far, gamma=0.95).codes


def test_a_time_limit_is_estimated_beside_episodes_that_an_epoch_cuts():
    for steps, codes in ((4, {"GD402"}), (20, set())):
        report = report_on(healthy(40, steps) + healthy(10, 2, seed=1))
        assert {"GD402"} & set(report.codes) == codes
