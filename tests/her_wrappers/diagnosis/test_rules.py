"""Each rule finds its planted cause and names it first; healthy runs have no finding."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from her_agents.training.config import with_defaults
from her_wrappers.diagnosis import DIAGNOSIS_RULES, diagnose
from her_wrappers.diagnosis.facts import Facts
from her_wrappers.recording.episodes import Episodes
from tests.support.bundled import VARIANTS
from tests.support.diagnosis import (
    EPISODES,
    FAULTY_ENVS,
    OPTIONS,
    STUCK,
    Unreachable,
    at_random,
    changed,
    distances,
    healthy,
    history,
    joined,
    judged,
    later,
    mapped,
    missed,
    often_towards_goal,
    padded,
    passed_goals,
    resting,
    rows_of,
    tiled,
    towards_goal,
    with_goal_component,
    with_other_last_states,
)

DEFAULTS = {"relabeled_share": 0.8, "options": with_defaults({"algo": "td3"})}


def report_on(episodes, **options):
    return diagnose(Facts.of("episodes", [Episodes.of(episodes)], **options))


def errors(report):
    return {finding.code for finding in report.of_severity("error")}


@pytest.mark.parametrize("code", DIAGNOSIS_RULES)
def test_a_planted_cause_is_found_and_named_first(code):
    report = report_on(EPISODES.get(code, healthy)(), **OPTIONS.get(code, {}))
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
    report = diagnose(env_id, gamma=0.98, clip_targets=True, max_steps=700)
    assert not errors(report), report
    assert len(report.findings) <= 1, report


def test_findings_about_exploration_by_random_policies_are_warnings():
    [finding] = diagnose(Unreachable, max_steps=1000, select=["GD201"]).findings
    assert (finding.code, finding.severity) == ("GD201", "warning")


# --- episodes of the cases below ------------------------------------------------------------------

PLACES = ("observation", "achieved_goal", "desired_goal")
one_start = partial(healthy, start=lambda rng: np.array([0.3, 0.5]))


def with_start(number):
    """Return one episode with one of six starts and goals."""
    start, goal = np.random.default_rng(number % 6).uniform(0, 1, (2, 2))
    return healthy(count=1, seed=number, start=lambda rng: start, goal=lambda rng: goal)[0]


def with_sensor(value):
    """Return episodes with an observation that is computed from achieved and desired goals."""
    return changed(
        healthy(),
        sensor=lambda each, i: value(each.observations["achieved_goal"], each.observations["desired_goal"]),
    )


def with_second_goals():
    return judged(
        mapped(healthy(), lambda rows: rows + 0.1 * (np.arange(len(rows))[:, None] > 14), "desired_goal")
    )


def with_constant_component():
    rng = np.random.default_rng(0)
    return changed(
        healthy(), actions=lambda each, i: np.column_stack([each.actions, np.full(len(each), rng.random())])
    )


def with_other_actions(function, **options):
    return changed(healthy(**options), actions=lambda each, i: function(each.actions, i))


def delayed(steps, **observations):
    """Return episodes in which actions take effect later; the last ones act in the first steps."""
    episodes = with_other_actions(lambda rows, i: np.roll(rows, -steps, axis=0), act=at_random)
    return changed(episodes, **observations)


def turned(*, is_shown):
    """Return episodes of robots that look to the right or to the left, with actions in their own frame."""
    angles = [np.random.default_rng(i).uniform(-0.3, 0.3) + np.pi * (i // 3 % 2) for i in range(60)]
    angles = (np.array(angles) + np.pi) % (2 * np.pi) - np.pi
    frames = [np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in angles]
    shown = {"heading": lambda each, i: np.full(len(each) + 1, angles[i])} if is_shown else {}
    return changed(healthy(60), actions=lambda each, i: each.actions @ frames[i], **shown)


def in_cells(count=40):
    """Return episodes in a grid of 13 by 13 cells."""

    def cell(rng):
        return rng.integers(0, 13, 2) / 12

    def act(rng, position, goal):
        way, component = np.sign((goal - position).round(3)), rng.integers(2)
        return way * (np.arange(2) == component) if rng.random() < 0.7 else np.eye(2)[component]

    episodes = healthy(count, start=cell, goal=cell, act=act, step=1 / 12)
    return judged(mapped(episodes, lambda rows: (12 * rows).round(), *PLACES))


def with_stale_goals():
    """Return episodes whose first five rows have the goal of the episode before."""
    episodes = healthy()

    def goals(each, number):
        old = tiled(episodes[number - 1], "desired_goal")
        return np.concatenate([old[:5], each.observations["desired_goal"][5:]])

    return changed(episodes, desired_goal=goals)


def without_reset():
    """Return episodes, each of which starts where the one before ended, with another goal."""
    place = [np.array([0.5, 0.5])]

    def act(rng, position, goal):
        action = often_towards_goal(rng, position, goal)
        place[0] = (position + 0.06 * action).clip(0, 1)
        return action

    return healthy(start=lambda rng: place[0], act=act)


def with_successes_of_one_component():
    def reached(each, number):
        achieved, desired = (each.observations[key] for key in PLACES[1:])
        return abs(achieved - desired)[1:, 0] <= 0.08

    return changed(healthy(), rewards=lambda *each: reached(*each) - 1.0, is_success=reached)


def with_flags(function, **options):
    return changed(healthy(**options), is_success=lambda each, i: function(each.infos["is_success"]))


def alternating():
    """Return episodes of which each has the rows of two episodes in turn."""
    episodes = healthy(20)
    pairs = zip(episodes[::2], episodes[1::2], strict=True)
    rows = np.arange(60) // 2 + np.arange(60) % 2 * 30
    return [
        rows_of(joined(pair, 2)[0], [*np.arange(60) // 2 + np.arange(60) % 2 * 30, 60], rows)
        for pair in pairs
    ]


def stopped(act=at_random):
    """Return episodes of which every fifth keeps its state from step 12 on."""
    episodes = healthy(act=act)
    rows = np.minimum(np.arange(31), 12)
    return judged([
        each if i % 5 else replace(rows_of(each, rows, np.arange(30)), actions=each.actions)
        for i, each in enumerate(episodes)
    ])


def in_a_hole():
    """Return episodes that keep their state from the first one in a circle on."""

    def rows(each):
        is_in = np.linalg.norm(each.observations["achieved_goal"] - 0.6, axis=1) < 0.2
        return np.minimum(np.arange(31), is_in.argmax() if is_in.any() else 31)

    episodes = healthy(act=at_random)
    return judged([
        replace(rows_of(each, rows(each), np.arange(30)), actions=each.actions) for each in episodes
    ])


def into_the_corner(rng, *_):
    return rng.uniform(0.2, 1, 2)


def lasting(each, number):
    """Return whether the goal was reached in the last three steps."""
    near = np.concatenate([[False, False], distances(each)[1:] <= 0.08])
    return near[2:] & near[1:-1] & near[:-2]


def late_goals(steps):
    return judged(
        mapped(healthy(), lambda rows: rows[np.maximum(np.arange(len(rows)) - steps, 0)], "achieved_goal")
    )


def without_detections():
    """Return episodes in which the achieved goal is 0 in 3 % of the states."""

    def detected(each, number):
        is_lost = np.random.default_rng(number).random((len(each) + 1, 1)) < 0.03
        return each.observations["achieved_goal"] * ~is_lost

    return judged(changed(healthy(), achieved_goal=detected))


def across_the_back():
    """Return episodes of two angles that wrap around on the way to their goals."""
    places = {"start": lambda rng: rng.uniform(0, 0.4, 2), "goal": lambda rng: rng.uniform(0.6, 1, 2)}
    episodes = healthy(act=towards_goal, **places)
    return mapped(episodes, lambda rows: (2 * rows + 2.1 + np.pi) % (2 * np.pi) - np.pi, *PLACES)


def is_last(rows):
    return np.arange(len(rows)) == len(rows) - 1


def at_large_places(offset):
    return judged(mapped(healthy(), lambda rows: (rows + offset).astype(np.float32), *PLACES))


CASES = {
    "": {
        "all episodes have one start": one_start,
        "a component of both goals never changes": lambda: judged(
            with_goal_component(healthy(), achieved_goal=lambda *_: 0.4, desired_goal=lambda *_: 0.4)
        ),
        "the radius is half a step": lambda: judged(healthy(), radius=0.04),
        "an action component is constant in each episode": with_constant_component,
        "an observation is the achieved goal": lambda: with_sensor(lambda achieved, _: 2 * achieved + 1),
        "nine episodes are too few for shares": lambda: EPISODES["GD102"]()[:9],
        "goals are passed by half of the episodes": lambda: passed_goals()[:20] + passed_goals(0.5)[20:],
        "a dense reward comes in time": lambda: changed(
            healthy(), rewards=lambda each, i: -distances(each)[1:]
        ),
        "goals are multiples of 0.1": lambda: healthy(goal=lambda rng: rng.uniform(0, 1, 2).round(1)),
        "goals change within episodes": with_second_goals,
        "actions act a step later, and the observation shows the last one": lambda: delayed(
            1, last=lambda each, i: np.roll(each.actions, 1, axis=0)[[*range(30), 0]]
        ),
        "an observation shows the sign of the motors": lambda: changed(
            healthy(),
            wiring=lambda each, i: np.full(len(each) + 1, (-1.0) ** i),
            actions=lambda each, i: each.actions * (-1) ** i,
        ),
        "robots look to two sides, which an angle shows": lambda: turned(is_shown=True),
        "a flag stays set": lambda: with_flags(np.logical_or.accumulate),
        "angles wrap around": across_the_back,
        "quaternions change their sign": lambda: mapped(
            across_the_back(),
            lambda rows: np.column_stack([np.cos(rows[:, 0] / 2), 0 * rows, np.sin(rows[:, 0] / 2)]),
            *PLACES,
        ),
        "a success must last": lambda: changed(
            healthy(), is_success=lasting, rewards=lambda each, i: lasting(each, i) - 1.0
        ),
        "a crash has a low reward": lambda: changed(
            healthy(act=at_random),
            rewards=lambda each, i: each.rewards - 9.0 * (is_last(each.rewards) & (i % 9 == 0)),
        ),
        "an agent is blocked in a corner": lambda: healthy(act=into_the_corner),
        "an agent is stuck in a hole": in_a_hole,
        "a goal moves forward and back": lambda: judged(
            mapped(healthy(), lambda rows: rows + 0.01 * (np.arange(31) % 2)[:, None], "desired_goal")
        ),
        "a camera has noise": lambda: judged(
            changed(
                healthy(),
                achieved_goal=lambda each, i: (
                    each.observations["achieved_goal"]
                    + np.random.default_rng(i).normal(0, 0.005, (len(each) + 1, 2))
                ),
            )
        ),
        "a success needs only one component": with_successes_of_one_component,
        "episodes begin where the last one ended": without_reset,
        "an agent rests at the end": lambda: resting(healthy()),
        "episodes in a grid": in_cells,
        "a grid has a portal": lambda: mapped(in_cells(), lambda rows: rows + [5, 0] * (rows >= 6), *PLACES),
    },
    "GD103 warning": {
        "large random actions come among small ones": lambda: healthy(
            act=lambda rng, *_: at_random(rng) * (1 if rng.random() < 0.3 else 0.1)
        ),
    },
    "GD106 info action[2]": {
        "a component is recorded as 0": lambda: with_other_actions(
            lambda rows, i: np.column_stack([rows, np.zeros(len(rows))])
        ),
    },
    "GD201 error": {
        "a component of the achieved goal never changes": lambda: with_goal_component(
            healthy(), achieved_goal=lambda *_: 0.4, desired_goal=lambda each, i: 0.4 + 0.02 * i
        ),
        "desired goals are recorded in millimeters": lambda: judged(
            mapped(healthy(), lambda goals: 1000 * goals, "desired_goal"), radius=-1
        ),
    },
    "GD202 warning": {
        "all episodes have one start and one goal": lambda: one_start(goal=lambda rng: np.array([0.8, 0.5])),
    },
    "GD210 warning": {
        "goals are passed by the latest episodes": lambda: passed_goals(0.5)[:20] + passed_goals()[20:],
    },
    "GD303 error": {
        "some rewards are 0 and 1 instead of -1 and 0": lambda: changed(
            healthy(), rewards=lambda each, i: each.rewards + (i % 10 == 0)
        ),
    },
    "GD402 warning": {
        "a flag is set only at the end": lambda: with_flags(lambda flags: flags & is_last(flags)),
    },
    "GD501 warning angle": {
        "one of several observations is constant": lambda: changed(
            healthy(), angle=lambda each, i: np.ones(len(each) + 1)
        ),
    },
    "GD503 warning observation": {
        "observations have two units": lambda: changed(
            healthy(), observation=lambda each, i: each.observations["observation"] * (1000 if i % 3 else 1)
        ),
    },
    "GD504 warning start": {
        "some starts are repeated": lambda: [with_start(number) for number in range(30)],
    },
    "GD506 error": {
        "an observation is the distance to the goal": lambda: with_sensor(
            lambda achieved, desired: np.linalg.norm(desired - achieved, axis=1)
        ),
    },
    "GD507 error": {
        "achieved goals are shifted": lambda: mapped(
            healthy(), lambda goals: goals + np.array([0.2, 0.1]), "achieved_goal"
        ),
        "desired goals are in another frame": lambda: mapped(
            healthy(), lambda goals: 1 - goals[:, ::-1], "desired_goal"
        ),
        "components of near goals are exchanged": lambda: mapped(
            judged(healthy(goal=lambda rng: rng.uniform(0.3, 0.7, 2)), radius=0.12),
            lambda goals: goals[:, ::-1],
            "desired_goal",
        ),
        "one component of desired goals is in millimeters": lambda: mapped(
            healthy(act=towards_goal), lambda goals: goals * [1, 1000], "desired_goal"
        ),
    },
    "GD507 error desired_goal": {
        "desired goals are the achieved ones": lambda: changed(
            healthy(), desired_goal=lambda each, i: each.observations["achieved_goal"]
        ),
        "desired goals are the last achieved ones": lambda: changed(
            healthy(), desired_goal=lambda each, i: np.tile(each.observations["achieved_goal"][-1], (31, 1))
        ),
    },
    "GD507 error is_success": {
        "a flag comes one step late": lambda: with_flags(lambda flags: later(flags, False)),
        "a flag is never set, but the reward differs": lambda: with_flags(np.zeros_like),
        "a flag is never set, and the reward never differs": lambda: changed(
            with_flags(np.zeros_like), rewards=lambda each, i: np.full(len(each), -1.0)
        ),
        "a flag is set at the end of each episode": lambda: with_flags(is_last, act=at_random),
        "a flag is set in all steps": lambda: with_flags(lambda flags: np.full_like(flags, flags[-1])),
    },
    "GD507 error reward": {
        "all rewards are equal": lambda: changed(healthy(), rewards=lambda each, i: np.full(len(each), -1.0)),
        "a sparse reward comes one step late": lambda: changed(
            healthy(), rewards=lambda each, i: later(each.rewards, -1)
        ),
        "a dense reward comes one step late": lambda: changed(
            healthy(), rewards=lambda each, i: -distances(each)[:-1]
        ),
    },
    "GD507 warning": {
        "flags and rewards have different radii": lambda: changed(
            healthy(), is_success=lambda each, i: distances(each)[1:] <= 0.3
        ),
    },
    "GD507 warning desired_goal": {
        "desired goals are rounded": lambda: mapped(healthy(), lambda goals: goals.round(1), "desired_goal"),
    },
    "GD508 error": {
        "last states are those of other episodes": lambda: with_other_last_states(healthy(), position=-1),
        "episodes are joined": lambda: joined(healthy(80)),
        "episodes in a grid are joined": lambda: joined(in_cells(), 2),
        "goals are 0 where they are not detected": without_detections,
    },
    "GD508 error desired_goal": {
        "goals of the episode before are in five rows": with_stale_goals,
        "rows of two episodes alternate": alternating,
    },
    "GD509 warning": {
        "actions come two steps early": lambda: with_other_actions(lambda rows, i: np.roll(rows, -2, axis=0)),
        "actions act two steps later": lambda: delayed(2),
        "some actions come a step late": lambda: with_other_actions(
            lambda rows, i: rows if i % 4 else np.roll(rows, 1, axis=0)
        ),
    },
    "GD509 warning action[0]": {
        "motors have random signs": lambda: with_other_actions(lambda rows, i: rows * (-1) ** (i // 3)),
        "actions have two units": lambda: with_other_actions(
            lambda rows, i: rows if i < 30 else 500 * rows + 1500
        ),
    },
    "GD509 warning action[1]": {
        "robots look to two sides": lambda: turned(is_shown=False),
    },
    "GD511 error": {
        "rows are recorded twice": lambda: [
            rows_of(each, np.arange(2 * len(each) + 1) // 2, np.arange(2 * len(each)) // 2)
            for each in healthy()
        ],
    },
    "GD511 warning": {"achieved goals come two steps late": lambda: late_goals(2)},
    "GD512 error": {"episodes are padded": lambda: padded(healthy())},
    "GD512 warning": {"a robot stops": stopped},
}
"""For each finding, or none, functions that return episodes with only this finding."""


def assert_only(expected, report):
    found = [" ".join([each.code, each.severity, each.subject]).strip() for each in report.findings]
    assert found == [expected][: bool(expected)], report


@pytest.mark.parametrize(
    ("expected", "make"),
    [pytest.param(finding, make, id=name) for finding, made in CASES.items() for name, make in made.items()],
)
def test_the_finding_about_episodes_is_this_one(expected, make):
    assert_only(expected, report_on(make()))


SOLVED = {"history": history(success_rate=[1.0] * 10)}


@pytest.mark.parametrize(
    ("expected", "make", "options"),
    [
        ("", EPISODES["GD503"], {"normalizes": True}),
        ("GD503 warning achieved_goal", lambda: at_large_places(3e5), {"normalizes": True}),
        ("", lambda: at_large_places(3e4), {"normalizes": True}),
        ("", EPISODES["GD102"], SOLVED),
        ("", healthy, {**SOLVED, "relabeled_share": 0.0}),
        ("", EPISODES["GD504"], {"is_environment": True}),
        ("GD603 error", healthy, {"history": history(**STUCK | {"temperature": [50] * 10})}),
        ("GD603 warning", healthy, {"history": history(**STUCK | {"temperature": [0.001] * 10})}),
        ("", healthy, DEFAULTS | {"relabeled_share": 0.5, "gamma": 0.995}),
        ("GD609 error gamma", healthy, DEFAULTS | {"gamma": 1.0}),
        ("GD609 warning gamma", healthy, DEFAULTS | {"gamma": 0.9995}),
        ("", healthy, {"history": history(40, **dict.fromkeys(STUCK, np.linspace(0, 0.4, 40).clip(0, 0.2)))}),
    ],
)
def test_the_finding_about_a_run_is_this_one(expected, make, options):
    assert_only(expected, report_on(make(), **options))


def test_nan_in_the_data_or_in_the_history_hides_no_finding_about_the_run():
    report = report_on(EPISODES["GD502"](), **OPTIONS["GD603"])
    assert {"GD502", "GD603"} <= set(report.codes)
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


@pytest.mark.parametrize(("radius", "is_outside"), [(0.75, True), (0.5, False)])
def test_goals_around_the_reach_of_an_arm_are_outside_though_the_box_contains_many(radius, is_outside):
    """The arm reaches a disc of radius 0.5, and goals are in a ring."""

    def goal(rng):
        angle, length = rng.uniform(0, 2 * np.pi), radius * rng.uniform(0.8, 1)
        return 0.5 + length * np.array([np.cos(angle), np.sin(angle)])

    def act(rng, position, goal):
        step = towards_goal(rng, position, goal)
        beyond = np.linalg.norm(position + 0.06 * step - 0.5) > 0.5
        return (0.5 - position) * rng.uniform(0, 2) if beyond else step + rng.normal(0, 0.3, 2)

    report = report_on(healthy(200, goal=goal, start=lambda rng: rng.uniform(0.45, 0.55, 2), act=act))
    assert ("GD201" in report.codes) == is_outside, report


def far_goal(rng):
    """Return a goal that is out of reach in 3 of 10 episodes."""
    return rng.uniform(0, 1, 2) + (rng.random() < 0.3) * np.array([1.2, 0])


def trembling(each, number):
    noise = np.random.default_rng(number).normal(0, 1e-4, (len(each) + 1, 2))
    return tiled(each, "achieved_goal") + noise


@pytest.mark.parametrize(
    ("first", "make"),
    [
        ("GD201", lambda: healthy(100, goal=far_goal, act=towards_goal)),
        ("GD102", lambda: judged(changed(healthy(), achieved_goal=trembling))),
        ("GD208", lambda: judged(healthy(act=towards_goal, step=0.2), radius=0.02)),
    ],
)
def test_the_cause_is_named_first(first, make):
    report = report_on(make())
    assert report.findings[0].code == first, report


@pytest.mark.parametrize("kind", ["steering", "delayed"])
def test_actions_whose_effect_is_indirect_have_an_effect(kind):
    """The second component turns a car that drives forwards and backwards, or acts one step later."""
    rng = np.random.default_rng(0)

    def state(each, number):
        speed = np.cumsum(each.actions[:, 0])
        turn = speed * each.actions[:, 1] if kind == "steering" else np.roll(each.actions[:, 1], 1)
        return np.concatenate([np.zeros((1, 2)), np.stack([speed, np.cumsum(turn)]).T])

    episodes = changed(healthy(60), actions=lambda each, i: rng.uniform(-1, 1, (len(each), 2)))
    assert "GD106" not in report_on(changed(episodes, observation=state)).codes


def cut_by_an_epoch(is_terminated):
    """Return failed episodes, of which an epoch cuts some."""
    short = [each for number in range(12) for each in missed(healthy(1, 10, seed=number, act=at_random))]
    whole = missed(healthy(40, act=at_random))
    return short + [replace(each, terminated=is_terminated, truncated=not is_terminated) for each in whole]


def far_from_the_start():
    """Return episodes, of which those that begin near the goal succeed by chance."""
    near = healthy(12, goal=lambda rng: rng.uniform(0, 0.1, 2), start=lambda rng: rng.uniform(0, 0.3, 2))
    return near + missed(
        healthy(40, goal=lambda rng: np.array([0.9, rng.random()]), start=lambda rng: np.zeros(2))
    )


@pytest.mark.parametrize(
    ("code", "make", "options", "is_found"),
    [
        ("GD401", far_from_the_start, {"gamma": 0.7}, True),
        ("GD401", far_from_the_start, {"gamma": 0.95}, False),
        ("GD402", lambda: healthy(40, 4) + healthy(10, 2, seed=1), {}, True),
        ("GD402", lambda: healthy(40, 20) + healthy(10, 2, seed=1), {}, False),
        ("GD404", lambda: cut_by_an_epoch(is_terminated=True), {}, True),
        ("GD404", lambda: cut_by_an_epoch(is_terminated=False), {}, False),
    ],
)
def test_short_horizons_are_found_though_some_episodes_are_shorter(code, make, options, is_found):
    assert (code in report_on(make(), **options).codes) == is_found


def test_the_report_has_the_success_rate():
    report = report_on(healthy())
    assert "in the last quarter of 40 episodes" in report.summary()
    assert "not exercised: the environment itself" in report.text()
    summary = report_on(healthy(), history=history(37, success_rate=[0.0] * 37)).summary()
    assert "success rate 0.00 in the last of 37" in summary


def test_actions_without_components_are_diagnosed():
    episodes = [replace(each, actions=each.actions[:, :0]) for each in healthy(20)]
    assert "GD106" not in diagnose(episodes).codes
