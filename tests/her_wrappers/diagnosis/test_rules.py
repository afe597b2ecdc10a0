"""Each rule finds its planted cause and names it first; healthy runs have no finding."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from her_agents.training.config import with_defaults
from her_wrappers import Episode
from her_wrappers.diagnosis import DIAGNOSIS_RULES, diagnose
from her_wrappers.diagnosis.facts import Facts
from her_wrappers.recording.episodes import Episodes
from tests.support.bundled import VARIANTS
from tests.support.diagnosis import (
    FAULTY_ENVS,
    PLANTED,
    STUCK,
    Unreachable,
    at_random,
    changed_goals,
    cut,
    distances,
    failed,
    healthy,
    history,
    joined,
    judged,
    late,
    missed,
    padded,
    passed_goals,
    resting,
    tiled,
    towards_goal,
    with_actions,
    with_flags,
    with_goal_component,
    with_observations,
    with_other_last_states,
    with_rewards,
    with_start,
    without_success,
)

DEFAULTS = {"relabeled_share": 0.8, "options": with_defaults({"algo": "td3"})}
COLD = STUCK | {"temperature": [0.001] * 10}
SOLVED = {"history": history(success_rate=[1.0] * 10)}


def report_on(episodes, **options):
    return diagnose(Facts.of("episodes", [Episodes.of(episodes)], **options))


def planted(code):
    return lambda: PLANTED[code]()[0]


def at_place(rng):
    return np.array([0.8, 0.5])


def with_angle():
    return with_observations(healthy(), angle=lambda each, i: np.ones(len(each) + 1))


def errors(report):
    return {finding.code for finding in report.of_severity("error")}


@pytest.mark.parametrize("code", DIAGNOSIS_RULES)
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
    assert not any(gap.codes for gap in report.not_exercised)


@pytest.mark.parametrize(("env_id", "options"), VARIANTS[:7], ids=[env_id for env_id, _ in VARIANTS[:7]])
def test_bundled_environments_have_no_error_and_at_most_one_warning(env_id, options):
    report = diagnose(env_id, gamma=0.98, clip_targets=True, max_steps=1500)
    assert not errors(report), report
    assert len(report.findings) <= 1, report


@pytest.mark.parametrize(("select", "severity"), [(["GD201"], "warning"), ([], "error")])
def test_findings_about_exploration_by_random_policies_are_warnings(select, severity):
    """A warning that implies an error, here about the time limit, becomes an error."""
    [finding] = diagnose(Unreachable, max_steps=1000, select=select).findings
    assert (finding.code, finding.severity) == ("GD201", severity)


def one_start(**options):
    return healthy(start=lambda rng: np.array([0.3, 0.5]), **options)


def trembling(each, number):
    noise = np.random.default_rng(number).normal(0, 1e-4, (len(each) + 1, 2))
    return tiled(each, "achieved_goal") + noise


def with_wrong_sign():
    return [
        replace(each, infos={}, rewards=np.where(each.infos["is_success"], -1.0, 0.0)) for each in healthy()
    ]


def with_sensor(value):
    """Return episodes with an observation that is computed from achieved and desired goals."""

    def sensor(each, number):
        return value(each.observations["achieved_goal"], each.observations["desired_goal"])

    return lambda: with_observations(healthy(), sensor=sensor)


def distance(achieved, desired):
    return np.linalg.norm(desired - achieved, axis=1)


def late_successes():
    way = {
        "start": lambda rng: np.array([0, rng.random()]),
        "goal": lambda rng: np.array([0.9, rng.random()]),
    }
    return healthy(30, 17, act=towards_goal, **way) + healthy(10, 17, seed=1, act=at_random, **way)


def with_second_goals():
    def goals(each, number):
        first = each.observations["desired_goal"]
        return first + 0.1 * (np.arange(len(first))[:, None] > 14)

    return judged(with_observations(healthy(), desired_goal=goals))


def with_constant_component():
    rng = np.random.default_rng(0)
    return [
        replace(each, actions=np.column_stack([each.actions, np.full(len(each), rng.random())]))
        for each in healthy()
    ]


STATES = [*range(30), 0]
"""Steps that begin in the states of an episode of `healthy`; the last state begins none."""


def delayed(steps):
    """Return episodes in which actions take effect later; the last ones act in the first steps."""
    return with_actions(healthy(act=at_random), lambda each, i: np.roll(each.actions, -steps, axis=0))


PLACES = ("observation", "achieved_goal", "desired_goal")


def turned(*, is_shown):
    """Return episodes of robots that look to the right or to the left, with actions in their own frame."""
    angles = [np.random.default_rng(i).uniform(-0.3, 0.3) + np.pi * (i // 3 % 2) for i in range(60)]
    angles = (np.array(angles) + np.pi) % (2 * np.pi) - np.pi
    frames = [np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in angles]
    episodes = with_actions(healthy(60), lambda each, i: each.actions @ frames[i])
    shown = {"heading": lambda each, i: np.full(len(each) + 1, angles[i])} if is_shown else {}
    return with_observations(episodes, **shown)


def two_gains(*, is_shown):
    """Return episodes of two robots, of which one moves a third as far in each step."""
    episodes = [*healthy(20, act=at_random), *healthy(20, act=at_random, seed=1, step=0.02)]
    shown = {"robot": lambda each, i: np.full(len(each) + 1, i // 20)} if is_shown else {}
    return with_observations([episodes[7 * i % 40] for i in range(40)] if not is_shown else episodes, **shown)


def in_cells(count=40):
    """Return episodes in a grid of 13 by 13 cells."""

    def cell(rng):
        return rng.integers(0, 13, 2) / 12

    def act(rng, position, goal):
        way, component = np.sign((goal - position).round(3)), rng.integers(2)
        return way * (np.arange(2) == component) if rng.random() < 0.7 else np.eye(2)[component]

    episodes = healthy(count, start=cell, goal=cell, act=act, step=1 / 12)
    return judged(changed_goals(episodes, lambda rows: (12 * rows).round(), *PLACES))


def with_portal():
    """Return episodes in a grid whose sixth column is linked to a column five cells farther away."""
    return changed_goals(in_cells(), lambda rows: rows + [5, 0] * (rows >= 6), *PLACES)


def with_stale_goals(count):
    """Return episodes whose first rows have the goal of the episode before."""
    episodes = healthy()

    def goals(each, number):
        old = tiled(episodes[number - 1], "desired_goal")
        return np.concatenate([old[:count], each.observations["desired_goal"][count:]])

    return with_observations(episodes, desired_goal=goals)


def without_reset():
    """Return episodes, each of which starts where the one before ended, with another goal."""
    place = [np.array([0.5, 0.5])]

    def act(rng, position, goal):
        action = (towards_goal if rng.random() < 0.4 else at_random)(rng, position, goal)
        place[0] = (position + 0.06 * action).clip(0, 1)
        return action

    return healthy(start=lambda rng: place[0], act=act)


CASES = {
    "successes come late": (late_successes, {}, "GD402 warning"),
    "one of several observations is constant": (with_angle, {}, "GD501 warning angle"),
    "the agent normalizes large observations": (planted("GD503"), {"normalizes": True}, ""),
    "goals of one kind are never reached": (planted("GD207"), {}, "GD207 warning desired_goal[0]"),
    "all episodes have one start": (one_start, {}, ""),
    "some starts are repeated": (
        lambda: [with_start(number) for number in range(30)],
        {},
        "GD504 warning start",
    ),
    "the temperature is high": (
        healthy,
        {"history": history(**STUCK | {"temperature": [50] * 10})},
        "GD603 error",
    ),
    "all rewards are equal": (
        lambda: with_rewards(healthy(), lambda each, i: np.full(len(each), -1.0)),
        {},
        "GD507 error reward",
    ),
    "a component of the achieved goal never changes": (
        lambda: with_goal_component(
            healthy(), achieved_goal=lambda *_: 0.4, desired_goal=lambda each, i: 0.4 + 0.02 * i
        ),
        {},
        "GD201 error",
    ),
    "a component of both goals never changes": (
        lambda: judged(
            with_goal_component(healthy(), achieved_goal=lambda *_: 0.4, desired_goal=lambda *_: 0.4)
        ),
        {},
        "",
    ),
    "all episodes have one start and one goal": (partial(one_start, goal=at_place), {}, "GD202 warning"),
    "a solved run explored little": (planted("GD102"), SOLVED, ""),
    "a solved run has unusual options": (healthy, {**SOLVED, "relabeled_share": 0.0}, ""),
    "the radius is half a step": (lambda: judged(healthy(), radius=0.04), {}, ""),
    "an action component is constant in each episode": (with_constant_component, {}, ""),
    "an action component has no effect": (planted("GD106"), {}, "GD106 info action[2]"),
    "rewards of -1 and 0 have the wrong sign": (with_wrong_sign, {}, "GD304 error"),
    "an observation is the distance to the goal": (with_sensor(distance), {}, "GD506 error"),
    "an observation is the achieved goal": (with_sensor(lambda achieved, _: 2 * achieved + 1), {}, ""),
    "nine episodes are too few for shares": (lambda: planted("GD102")()[:9], {}, ""),
    "options are usual": (healthy, DEFAULTS | {"relabeled_share": 0.5, "gamma": 0.995}, ""),
    "gamma is 1": (healthy, DEFAULTS | {"gamma": 1.0}, "GD609 error gamma"),
    "gamma is nearly 1": (healthy, DEFAULTS | {"gamma": 0.9995}, "GD609 warning gamma"),
    "few goals are relabeled": (healthy, {"relabeled_share": 0.1}, "GD609 warning goal_selection_strategy"),
    "goals are passed by half of the episodes": (
        lambda: passed_goals()[:20] + passed_goals(0.5)[20:],
        {},
        "",
    ),
    "goals are passed by the latest episodes": (
        lambda: passed_goals(0.5)[:20] + passed_goals()[20:],
        {},
        "GD210 warning",
    ),
    "a flag comes one step late": (lambda: late(healthy(), rewards=False), {}, "GD507 error is_success"),
    "a sparse reward comes one step late": (
        lambda: late(healthy(), flags=False),
        {},
        "GD507 error reward",
    ),
    "a dense reward comes one step late": (
        lambda: with_rewards(healthy(), lambda each, i: -distances(each)[:-1]),
        {},
        "GD507 error reward",
    ),
    "a dense reward comes in time": (
        lambda: with_rewards(healthy(), lambda each, i: -distances(each)[1:]),
        {},
        "",
    ),
    "a flag is never set, but the reward differs": (
        lambda: without_success(healthy()),
        {},
        "GD507 error is_success",
    ),
    "a flag is never set, and the reward never differs": (
        lambda: with_rewards(without_success(healthy()), lambda each, i: np.full(len(each), -1.0)),
        {},
        "GD507 error is_success",
    ),
    "no episode ends at its goal": (
        lambda: missed(healthy(80, act=at_random)),
        {},
        "GD103 warning",
    ),
    "desired goals are recorded in millimeters": (
        lambda: failed(changed_goals(healthy(), lambda goals: 1000 * goals, "desired_goal")),
        {},
        "GD201 error",
    ),
    "goals are in millimeters, but successes are those in meters": (
        lambda: changed_goals(healthy(act=towards_goal), lambda goals: 1000 * goals, "desired_goal"),
        {},
        "GD507 error",
    ),
    "desired goals are rounded": (
        lambda: changed_goals(healthy(), lambda goals: goals.round(1), "desired_goal"),
        {},
        "GD507 warning desired_goal",
    ),
    "goals are multiples of 0.1": (lambda: healthy(goal=lambda rng: rng.uniform(0, 1, 2).round(1)), {}, ""),
    "last states are those of other episodes": (
        lambda: with_other_last_states(healthy(), position=-1),
        {},
        "GD508 error",
    ),
    "large random actions come among small ones": (
        lambda: healthy(act=lambda rng, *_: at_random(rng) * (1 if rng.random() < 0.3 else 0.1)),
        {},
        "GD103 warning",
    ),
    "episodes are joined": (lambda: joined(healthy(80)), {}, "GD508 error"),
    "goals change within episodes": (with_second_goals, {}, ""),
    "actions come two steps early": (
        lambda: with_actions(healthy(), lambda each, i: np.roll(each.actions, -2, axis=0)),
        {},
        "GD509 warning",
    ),
    "actions act two steps later": (lambda: delayed(2), {}, "GD509 warning"),
    "actions act a step later, and the observation shows the last one": (
        lambda: with_observations(delayed(1), last=lambda each, i: np.roll(each.actions, 1, 0)[STATES]),
        {},
        "",
    ),
    "actions act a step later, and the observation shows the velocity": (
        lambda: with_observations(
            delayed(1), velocity=lambda each, i: 0.06 * np.roll(each.actions, 1, 0)[STATES] + 0.01
        ),
        {},
        "",
    ),
    "motors have random signs": (
        lambda: with_actions(healthy(), lambda each, i: each.actions * (-1) ** (i // 3)),
        {},
        "GD509 warning action[0]",
    ),
    "an observation shows the sign of the motors": (
        lambda: with_actions(
            with_observations(healthy(), wiring=lambda each, i: np.full(len(each) + 1, (-1.0) ** i)),
            lambda each, i: each.actions * (-1) ** i,
        ),
        {},
        "",
    ),
    "robots look to two sides, which an angle shows": (lambda: turned(is_shown=True), {}, ""),
    "robots look to two sides": (lambda: turned(is_shown=False), {}, "GD509 warning action[1]"),
    "robots have two gains": (lambda: two_gains(is_shown=False), {}, "GD509 warning action[0]"),
    "robots have two gains, and an observation shows the robot": (lambda: two_gains(is_shown=True), {}, ""),
    "actions have two units": (
        lambda: with_actions(
            healthy(), lambda each, i: each.actions if i < 30 else 500 * each.actions + 1500
        ),
        {},
        "GD509 warning action[0]",
    ),
    "actions have two orders": (
        lambda: with_actions(healthy(), lambda each, i: each.actions[:, :: (1, -1)[i > 25]]),
        {},
        "GD509 warning action[0]",
    ),
    "a flag is set at the end of each episode": (
        lambda: with_flags(healthy(act=at_random), lambda flags: np.arange(len(flags)) == len(flags) - 1),
        {},
        "GD507 error is_success",
    ),
    "a flag stays set": (lambda: with_flags(healthy(), np.logical_or.accumulate), {}, ""),
    "a flag is set only at the end": (
        lambda: with_flags(healthy(), lambda flags: flags & (np.arange(len(flags)) == len(flags) - 1)),
        {},
        "GD402 warning",
    ),
    "flags and rewards have different radii": (
        lambda: [
            replace(each, infos=loose.infos)
            for each, loose in zip(healthy(), judged(healthy(), 0.3), strict=True)
        ],
        {},
        "GD507 warning",
    ),
    "achieved goals are shifted": (
        lambda: changed_goals(healthy(), lambda goals: goals + np.array([0.2, 0.1]), "achieved_goal"),
        {},
        "GD507 error",
    ),
    "desired goals are in another frame": (
        lambda: changed_goals(healthy(), lambda goals: 1 - goals[:, ::-1], "desired_goal"),
        {},
        "GD507 error",
    ),
    "one component of desired goals is in millimeters": (
        lambda: changed_goals(healthy(act=towards_goal), lambda goals: goals * [1, 1000], "desired_goal"),
        {},
        "GD507 error",
    ),
    "a success needs only one component": (
        lambda: [
            replace(each, rewards=reached - 1.0, infos={"is_success": reached})
            for each in healthy()
            for goals in [[each.observations[key] for key in PLACES[1:]]]
            for reached in [abs(goals[0] - goals[1])[1:, 0] <= 0.08]
        ],
        {},
        "",
    ),
    "desired goals are the achieved ones": (
        lambda: with_observations(healthy(), desired_goal=lambda each, i: each.observations["achieved_goal"]),
        {},
        "GD507 error desired_goal",
    ),
    "rows are recorded twice": (
        lambda: [
            Episode(
                {key: rows[np.arange(2 * len(each) + 1) // 2] for key, rows in each.observations.items()},
                each.actions.repeat(2, axis=0),
                each.rewards.repeat(2),
                terminated=False,
                truncated=True,
                infos={"is_success": each.infos["is_success"].repeat(2)},
            )
            for each in healthy()
        ],
        {},
        "GD511 error",
    ),
    "an object is held for five steps": (planted("GD511"), {}, "GD511 warning"),
    "an agent often rests": (
        lambda: healthy(act=lambda rng, *place: towards_goal(rng, *place) * (rng.random() < 0.4)),
        {},
        "",
    ),
    "goals of the episode before are in five rows": (
        lambda: with_stale_goals(5),
        {},
        "GD508 error desired_goal",
    ),
    "goals of the episode before are in half of the rows": (
        lambda: with_stale_goals(15),
        {},
        "GD508 error desired_goal",
    ),
    "episodes begin where the last one ended": (without_reset, {}, ""),
    "episodes are cut in three": (lambda: cut(healthy(20, 30), 10), {}, "GD512 error"),
    "episodes are padded": (lambda: padded(healthy()), {}, "GD512 error"),
    "an agent rests at the end": (lambda: resting(healthy())[0], {}, ""),
    "episodes in a grid": (in_cells, {}, ""),
    "episodes in a grid are joined": (lambda: joined(in_cells(), 2), {}, "GD508 error"),
    "a grid has a portal": (with_portal, {}, ""),
    "goals are too large for float32": (
        lambda: judged(changed_goals(healthy(), lambda rows: (rows + 3e5).astype(np.float32), *PLACES)),
        {"normalizes": True},
        "GD503 warning achieved_goal",
    ),
    "goals are large": (
        lambda: judged(changed_goals(healthy(), lambda rows: (rows + 3e4).astype(np.float32), *PLACES)),
        {"normalizes": True},
        "",
    ),
    "success no longer rises": (
        healthy,
        {"history": history(40, **dict.fromkeys(STUCK, np.linspace(0, 0.4, 40).clip(0, 0.2)))},
        "",
    ),
    "the temperature is low": (healthy, {"history": history(**COLD)}, "GD603 warning"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_finding_is_this_one(case):
    make, options, expected = CASES[case]
    report = report_on(make(), **options)
    found = [" ".join([each.code, each.severity, each.subject]).strip() for each in report.findings]
    assert found == [expected][: bool(expected)], report


def test_large_values_before_nan_are_found_too():
    values = history(q_mean=[*np.geomspace(1, 1e6, 9), np.nan])
    assert report_on(healthy(), history=values, gamma=0.98).codes == ["GD602", "GD608"]


def test_sparse_rewards_show_successes_if_flags_were_not_recorded():
    flagged = report_on(healthy())
    assert report_on([replace(each, infos={}) for each in healthy()]) == flagged
    shifted = report_on([replace(each, infos={}, rewards=each.rewards + 1) for each in healthy()])
    assert shifted.successes == flagged.successes
    dense = report_on([replace(each, infos={}, rewards=each.rewards / 2) for each in healthy()])
    assert {"GD103", "GD404"} <= {code for gap in dense.not_exercised for code in gap.codes}
    assert (dense.successes, "success rate unknown" in dense.summary()) == (None, True)


def in_ring(radius):
    """Return a function that samples points with at least a share of 0.8 of a radius around (0.5, 0.5)."""

    def sample(rng):
        angle, length = rng.uniform(0, 2 * np.pi), radius * rng.uniform(0.8, 1)
        return 0.5 + length * np.array([np.cos(angle), np.sin(angle)])

    return sample


@pytest.mark.parametrize(("radius", "is_outside"), [(0.75, True), (0.5, False)])
def test_goals_around_the_reach_of_an_arm_are_outside_though_the_box_contains_many(radius, is_outside):
    """The arm reaches a disc of radius 0.5, and goals are in a ring."""

    def act(rng, position, goal):
        step = np.clip((goal - position) / 0.06, -1, 1)
        beyond = np.linalg.norm(position + 0.06 * step - 0.5) > 0.5
        return (0.5 - position) * rng.uniform(0, 2) if beyond else step + rng.normal(0, 0.3, 2)

    def start(rng):
        return rng.uniform(0.45, 0.55, 2)

    report = report_on(healthy(200, goal=in_ring(radius), start=start, act=act))
    assert ("GD201" in report.codes) == is_outside, report


def far_goal(rng):
    """Return a goal that is out of reach in 3 of 10 episodes."""
    return rng.uniform(0, 1, 2) + (rng.random() < 0.3) * np.array([1.2, 0])


@pytest.mark.parametrize(
    ("first", "make"),
    [
        ("GD201", lambda: healthy(100, goal=far_goal, act=towards_goal)),
        ("GD102", lambda: judged(with_observations(healthy(), achieved_goal=trembling))),
        ("GD208", lambda: judged(healthy(act=towards_goal, step=0.2), radius=0.02)),
        (
            "GD105",
            lambda: with_observations(
                planted("GD105")(), clock=lambda each, i: np.linspace(0, 1, len(each) + 1)
            ),
        ),
    ],
)
def test_the_cause_is_named_first(first, make):
    report = report_on(make())
    assert report.findings[0].code == first, report


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


@pytest.mark.parametrize("is_terminated", [True, False])
def test_a_time_limit_that_terminates_is_found_beside_episodes_that_an_epoch_cuts(is_terminated):
    cut = [each for number in range(12) for each in missed(healthy(1, 10, seed=number, act=at_random))]
    whole = missed(healthy(40, act=at_random))
    whole = [replace(each, terminated=is_terminated, truncated=not is_terminated) for each in whole]
    assert ("GD404" in report_on(whole + cut).codes) == is_terminated


@pytest.mark.parametrize(("steps", "is_short"), [(4, True), (20, False)])
def test_a_time_limit_is_estimated_beside_episodes_that_an_epoch_cuts(steps, is_short):
    report = report_on(healthy(40, steps) + healthy(10, 2, seed=1))
    assert ("GD402" in report.codes) == is_short


@pytest.mark.parametrize(("gamma", "is_short"), [(0.7, True), (0.95, False)])
def test_successes_by_chance_near_the_start_do_not_hide_a_discount_that_is_too_short(gamma, is_short):
    near = healthy(12, goal=lambda rng: rng.uniform(0, 0.1, 2), start=lambda rng: rng.uniform(0, 0.3, 2))
    far = missed(healthy(40, goal=lambda rng: np.array([0.9, rng.random()]), start=lambda rng: np.zeros(2)))
    assert ("GD401" in report_on(near + far, gamma=gamma).codes) == is_short


def test_nan_in_the_data_hides_no_finding_about_the_run():
    report = report_on(planted("GD502")(), **PLANTED["GD603"]()[1])
    assert {"GD502", "GD603"} <= set(report.codes)


@pytest.mark.parametrize(
    ("options", "summary"),
    [
        ({"history": history(37, success_rate=[0.0] * 37)}, "success rate 0.00 in the last of 37"),
        ({}, "in the last quarter of 40 episodes"),
    ],
)
def test_the_report_has_the_success_rate(options, summary):
    report = report_on(healthy(), **options)
    assert summary in report.summary()
    assert "not exercised: the environment itself" in report.text()
