"""Rewards and pictures of ``her show-relabeling``."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from her_envs import BitFlipping, PointReach, TaskEnv
from her_envs.canvas import AGENT, FAINT, REACHED
from her_wrappers.commands.show_relabeling import draw_other, draw_page, draw_task, find_miss, make_policy
from her_wrappers.replay.goal_selection import STRATEGIES
from tests.support.other_envs import Other, Silent

MAKERS = {
    "reach": lambda: TaskEnv(PointReach()),
    "dense reach": lambda: TaskEnv(PointReach(), reward_type="dense"),
    "images of bits": lambda: TaskEnv(BitFlipping(observation="image")),
    "integers of bits": lambda: TaskEnv(BitFlipping(observation="integer")),
    "push": lambda: gym.make("her_envs/PointPush-v0"),
    "other": lambda: Other(render_mode="rgb_array"),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_rewards_are_those_of_the_relabeled_goals(make, strategy):
    env = make()
    hindsight = find_miss(env, "wander", range(3), strategy)
    before, after = hindsight.sides
    achieved = hindsight.episode.observations["achieved_goal"]
    for t, reward in enumerate(after.rewards):
        expected = env.unwrapped.compute_reward(achieved[t + 1], achieved[hindsight.goal_state], {})
        assert reward == np.float32(expected)
    assert not before.reached.any()
    assert after.reached[hindsight.goal_state - 1]


@pytest.mark.parametrize("make", [MAKERS["reach"], MAKERS["push"], MAKERS["other"]])
def test_reached_goals_are_those_that_the_task_calls_success(make):
    env = make()
    success = env.unwrapped.is_success if isinstance(env.unwrapped, Other) else env.unwrapped.task.success
    hindsight = find_miss(env, "wander", range(3), "final")
    achieved = hindsight.episode.observations["achieved_goal"]
    np.testing.assert_array_equal(hindsight.sides[1].reached, success(achieved[1:], achieved[-1]))


def test_the_failed_episode_that_got_farthest_is_shown():
    env = TaskEnv(PointReach(success_radius=0.2))
    distances = {}
    for seed in range(30):
        try:
            achieved = find_miss(env, "wander", [seed], "final").episode.observations["achieved_goal"]
        except ValueError:  # it reached its goal
            continue
        distances[seed] = np.linalg.norm(achieved[-1] - achieved[0]) * (np.diff(achieved, axis=0) != 0).mean()
    assert 0 < len(distances) < 30, "some miss, some do not"
    assert find_miss(env, "wander", range(30), "final").seed == max(distances, key=distances.get)


def test_is_success_of_an_environment_counts_as_reached():
    class Flag(Silent):
        """An environment with a success flag at every second step, independent of the reward."""

        def inform(self, observation):
            return {"is_success": self.elapsed % 2 == 0}

    with pytest.raises(ValueError, match="all 3 episodes reached their goals"):
        find_miss(Flag(), "random", range(3), "final")


@pytest.mark.parametrize(
    ("task", "place"), [(PointReach(), "observation"), (BitFlipping(observation="image"), "bits")]
)
def test_a_bundled_task_is_drawn_with_both_goals(task, place):
    env = TaskEnv(task, render_mode="rgb_array", render_size=96)
    hindsight = find_miss(env, "wander", range(3), "final")
    states = hindsight.frames
    own = states[0]["goal"][0]
    new = task.reached_goal(states[hindsight.goal_state])[0]
    for is_relabeled, goal in ((False, own), (True, new)):
        start = states[0][next(key for key in states[0] if key != "goal")][0]
        env.reset(options={"state": start, "goal": goal})
        np.testing.assert_array_equal(
            draw_task(env, hindsight, 0, 96, is_relabeled=is_relabeled), env.render()
        )
        for action in hindsight.episode.actions:
            env.step(action)
        last = draw_task(env, hindsight, len(hindsight.episode), 96, is_relabeled=is_relabeled)
        np.testing.assert_array_equal(last, env.render())


def test_another_environment_is_shown_as_rendered_next_to_a_chart():
    env = Other(render_mode="rgb_array")
    hindsight = find_miss(env, "wander", range(3), "final")
    for t in (0, 3, 20):
        picture = draw_other(env, hindsight, t, 100, is_relabeled=False)
        assert picture.shape == (100, 100, 3)
        assert (picture[50] == t).all()
    assert draw_other(env, hindsight, 20, 100, is_relabeled=True).shape == (100, 100, 3)


@pytest.mark.parametrize("reward_type", ["sparse", "dense"])
def test_cells_and_texts_show_reached_goals_and_rewards(reward_type):
    env = TaskEnv(PointReach(), reward_type=reward_type)
    hindsight = find_miss(env, "wander", range(3), "final")
    page = draw_page("reach", hindsight, env, 40, 320)
    assert page.shape == (452, 640, 3)
    for number, side in enumerate(hindsight.sides):
        cells = [tuple(page[365, round(number * 320 + 16 + (step + 0.5) * 288 / 50)]) for step in range(50)]
        assert cells == [REACHED if reached else AGENT for reached in side.reached[:40]] + [FAINT] * 10
    before, after = hindsight.sides
    if reward_type == "dense":
        assert before.outcome(9) == f"not reached: return {before.rewards[:9].sum():.3g}"
    else:
        first, count = np.flatnonzero(after.reached)[0] + 1, after.reached.sum()
        assert after.outcome(50) == f"reached at step {first}: {count} of 50 steps rewarded"
        assert before.outcome(50) == "not reached: 0 of 50 steps rewarded"


def test_wandering_actions_are_correlated_and_in_their_space():
    for space in (spaces.Box(-1, 1, (2,)), spaces.Box(-np.inf, np.inf, (2,)), spaces.Box(0, 4, (2,))):
        space.seed(0)
        act = make_policy(space, "wander")
        actions = np.array([act(None) for _ in range(2000)])
        assert all(space.contains(action) for action in actions)
        assert np.corrcoef(actions[:-1, 0], actions[1:, 0])[0, 1] > 0.7
        assert abs(np.corrcoef(actions[:, 0], actions[:, 1])[0, 1]) < 0.3
    assert spaces.Discrete(4).contains(make_policy(spaces.Discrete(4), "wander")(None))
