"""Where a policy succeeds: a fixed suite of goals, groups of goals, and reports."""

import json
import re

import gymnasium as gym
import numpy as np
import pytest

from her_agents import evaluate_goals
from her_agents.results.evaluation_report import EvaluationReport
from her_envs import BitFlipping, PointReach, TaskEnv


def towards_the_goal(observation):
    return np.clip(5 * (observation["desired_goal"] - observation["achieved_goal"]), -1, 1)


def stay(observation):
    return np.zeros(2, np.float32)


def report_of(goals, successes, *, starts=None, is_success=None):
    """Return a report of episodes of one step, which begin at the origin."""
    goals = np.array(goals, float)
    flags = np.array(successes, bool)[:, None] if is_success is None else np.array(is_success, bool)
    starts = np.zeros_like(goals) if starts is None else np.array(starts, float)
    ones = np.ones(len(goals))
    return EvaluationReport("policy", "env", 0, starts, goals, flags, ones.astype(int), -ones)


def test_all_policies_meet_the_same_starts_and_goals():
    env = TaskEnv(PointReach(), max_steps=6)
    first = evaluate_goals(env, towards_the_goal, episodes=5, seed=1)
    second = evaluate_goals(env, stay, episodes=8, seed=1)
    assert np.array_equal(first.starts, second.starts[:5])
    assert np.array_equal(first.goals, second.goals[:5])
    assert evaluate_goals(TaskEnv(PointReach(), max_steps=6), stay, episodes=5, seed=1).suite == first.suite
    assert evaluate_goals(env, stay, episodes=5, seed=2).suite != first.suite


def test_the_results_are_those_of_the_episodes():
    report = evaluate_goals(TaskEnv(PointReach(), max_steps=40), towards_the_goal, episodes=5)
    assert report.total()[:3] == ("all", 5, 1.0)
    assert report.lengths.tolist() == [40] * 5
    at_goal, so_far = report.over_time()
    assert at_goal[-1] == so_far[-1] == 1
    assert (so_far >= at_goal).all()
    # The reward is 0 at the goal and -1 elsewhere.
    assert report.returns.tolist() == [-float((~row).sum()) for row in report.is_success]


def test_episodes_that_ended_keep_their_last_step():
    env = TaskEnv(BitFlipping(n_bits=4), terminate_on_success=True)
    wrong = lambda observation: int(np.argmax(observation["observation"] != observation["desired_goal"]))  # noqa: E731
    report = evaluate_goals(env, wrong, episodes=20)
    assert len(set(report.lengths.tolist())) > 1
    assert report.is_success[:, -1].all()
    assert (report.is_success.argmax(axis=1) + 1 == report.lengths).all()


def test_regions_divide_the_range_of_the_goals():
    corners = [(0, 0), (0, 1), (1, 0), (3, 3)]
    shares = report_of(corners, [1, 1, 0, 0]).by_region()
    assert [(each.name, each.episodes, each.rate) for each in shares] == [
        ("g0 0 to 1, g1 0 to 1", 1, 1.0),
        ("g0 0 to 1, g1 1 to 2", 1, 1.0),
        ("g0 1 to 2, g1 0 to 1", 1, 0.0),
        ("g0 2 to 3, g1 2 to 3", 1, 0.0),
    ]
    fixed = report_of([(0, 7), (8, 7)], [1, 0]).by_region()  # the second component does not vary
    assert [each.name for each in fixed] == ["g0 0 to 1", "g0 7 to 8"]
    assert sum(each.episodes for each in report_of(np.eye(3), [1] * 3).by_region()) == 3
    assert report_of(np.eye(4), [1] * 4).by_region() == []


def test_distances_are_divided_into_groups_of_equal_size():
    goals = np.array([[10, 1, 3, 2, 4, 6, 5, 7, 9, 8]]).T
    shares = report_of(goals, [0, 1, 1, 1, 1, 0, 1, 0, 0, 0]).by_distance()
    assert [each.name for each in shares] == ["1 to 2", "3 to 4", "5 to 6", "7 to 8", "9 to 10"]
    assert [each.rate for each in shares] == [1, 1, 0.5, 0, 0]
    [near, far] = report_of([[5.0, 0], [5.0, 0]], [0, 1], starts=[[2.0, 4], [5.0, 1]]).by_distance()
    assert (near.name, near.rate, far.name) == ("1 to 1", 1, "5 to 5")


def test_the_interval_of_a_share_is_that_of_wilson():
    # Newcombe 1998, table I: 15 of 148 has the Wilson interval 0.0624 to 0.1605.
    share = report_of(np.arange(148)[:, None], [1] * 15 + [0] * 133).total()
    assert (round(share.low, 4), round(share.high, 4)) == (0.0624, 0.1605)


def test_left_goals_are_counted():
    report = report_of([[1], [2], [3]], None, is_success=[[1, 0], [0, 1], [0, 0]])
    assert "Success rate 0.333" in report.summary()
    assert "success once 0.667" in report.summary()
    assert "1 of 2 episodes that reach the goal leave it" in report.summary()
    assert report.over_time().tolist() == [[1 / 3, 1 / 3], [1 / 3, 2 / 3]]


@pytest.mark.parametrize(("components", "panels"), [(1, 2), (2, 3), (3, 5), (4, 2)])
def test_goals_of_two_and_three_components_have_pictures(components, panels):
    goals = np.random.default_rng(0).random((20, components))
    figure = report_of(goals, [1, 0] * 10).draw()
    assert len(figure.axes) == panels
    titles = [axes.get_title() for axes in figure.axes]
    assert titles.count("desired goals") == panels - 2


def test_json_has_all_results(tmp_path):
    report = report_of([(0, 0), (1, 2)], [1, 0])
    report.write(tmp_path / "r.json")
    content = json.loads((tmp_path / "r.json").read_text())
    assert (content["goals"], content["is_success"]) == ([[0, 0], [1, 2]], [[True], [False]])
    assert content["suite"] == report.suite
    assert content["total"][0]["rate"] == 0.5
    report.write(tmp_path / "report.md")
    assert (tmp_path / "report.md").read_text() == report.markdown()


def test_the_page_escapes_names_and_loads_nothing(tmp_path):
    report = EvaluationReport(**{**vars(report_of([(0, 0), (1, 2)], [1, 0])), "policy": "<a>"})
    report.write(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "&lt;a&gt; in env" in text
    assert text.count("<img") == text.count('src="data:image/png;base64,') == text.count("src=") == 1
    assert not re.search(r"<(script|link|iframe)|url\(", text)


class Unseeded(gym.Wrapper):
    """An environment whose goals do not depend on the seed."""

    def reset(self, *, seed=None, options=None):
        return self.env.reset(seed=None, options=options)


def test_environments_without_repeatable_goals_are_an_error():
    with pytest.raises(ValueError, match="must determine start and goal"):
        evaluate_goals(Unseeded(TaskEnv(PointReach())), stay)
    with pytest.raises(ValueError, match="episodes must be an integer >= 1, got 0"):
        evaluate_goals(TaskEnv(PointReach()), stay, episodes=0)
    with pytest.raises(ValueError, match="must be a Dict"):
        evaluate_goals(gym.make("CartPole-v1"), stay)
