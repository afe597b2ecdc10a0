"""Rewards and pictures of ``her show-relabeling``."""

from __future__ import annotations

import io
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

from her_envs import BitFlipping, PointReach, TaskEnv
from her_envs.canvas import AGENT, BACKGROUND, FAINT, REACHED
from her_wrappers.commands.relabeling_page import (
    INSET,
    LINE,
    MARGIN,
    PANEL,
    STRIP,
    WIDTH,
    ChartPanels,
    RelabelingPage,
    TaskPanels,
)
from her_wrappers.commands.show_relabeling import find_miss, policies_of
from her_wrappers.goal_interface import GoalInterface
from her_wrappers.replay.goal_selection import STRATEGIES
from tests.support.other_envs import Other, Silent


def hindsight_of(env, strategy="final", seeds=range(3), policy="wander"):
    acts = policies_of(env.action_space, policy)
    return find_miss(env, GoalInterface.of(env), acts, seeds, strategy)


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
    hindsight = hindsight_of(env, strategy)
    achieved = hindsight.episode.observations["achieved_goal"]
    for t, reward in enumerate(hindsight.rewards):
        expected = env.unwrapped.compute_reward(achieved[t + 1], achieved[hindsight.goal_state], {})
        assert reward == np.float32(expected)
    assert not hindsight.reached_before.any()
    assert hindsight.reached_after[hindsight.goal_state - 1]


@pytest.mark.parametrize("make", [MAKERS["reach"], MAKERS["push"], MAKERS["other"]])
def test_reached_goals_are_those_that_the_task_calls_success(make):
    env = make()
    success = env.unwrapped.is_success if isinstance(env.unwrapped, Other) else env.unwrapped.task.success
    hindsight = hindsight_of(env)
    achieved = hindsight.episode.observations["achieved_goal"]
    np.testing.assert_array_equal(hindsight.reached_after, success(achieved[1:], achieved[-1]))


# In the first range of seeds the score depends on an early end, in the second range on a wall.
@pytest.mark.parametrize("seeds", [range(30), range(70, 100)])
def test_the_failed_episode_that_got_farthest_is_shown(seeds):
    env = TaskEnv(PointReach(success_radius=0.2))
    got = {}
    for seed in seeds:
        try:
            episode = hindsight_of(env, seeds=range(seed, seed + 1)).episode
        except ValueError:  # it reached its goal
            continue
        achieved = episode.observations["achieved_goal"]
        late = (np.linalg.norm(achieved - achieved[-1], axis=1)[1:41] > 0.2).all()
        moves = [before != after for axis in achieved.T for before, after in pairwise(axis.tolist())]
        got[seed] = (late, np.linalg.norm(achieved[-1] - achieved[0]) * np.mean(moves))
    assert 0 < len(got) < 30, "some miss, some do not"
    assert len({late for late, _ in got.values()}) == 2
    assert hindsight_of(env, seeds=seeds).seed == max(got, key=got.get)


def test_is_success_of_an_environment_counts_as_reached():
    class Flag(Silent):
        """An environment with a success flag at every second step, independent of the reward."""

        def inform(self, observation):
            return {"is_success": self.elapsed % 2 == 0}

    with pytest.raises(ValueError, match="all 3 episodes reached their goals"):
        hindsight_of(Flag(), policy="random")


def replay(env, episode, goal=None):
    """Yield a picture of each state of an episode, with another goal if one is given."""
    state = {"state": episode.observations["observation"][0]}
    env.reset(options=state | {"goal": episode.observations["desired_goal"][0] if goal is None else goal})
    yield env.render()
    for action in episode.actions:
        env.step(action)
        yield env.render()


def test_a_bundled_task_is_drawn_with_a_faint_picture_of_its_own_goal():
    env = TaskEnv(PointReach(), render_mode="rgb_array", render_size=96)
    hindsight = hindsight_of(env)
    episode = hindsight.episode
    panels = TaskPanels(env, hindsight, 96)
    was = list(replay(env, episode))
    moved = list(replay(env, episode, episode.observations["achieved_goal"][hindsight.goal_state]))
    for t in range(len(episode) + 1):
        np.testing.assert_array_equal(panels.draw(t, is_relabeled=False), was[t])
        differs = (panels.draw(t, is_relabeled=True) != moved[t]).any(-1)
        assert differs.any()
        assert (moved[t][differs] == BACKGROUND).all(), "the trace hides nothing"
        assert (was[t][differs] != BACKGROUND).any(-1).all(), "it is where something was"


def test_bits_are_drawn_with_the_achieved_bits_as_the_goal():
    env = TaskEnv(BitFlipping(observation="image"), render_mode="rgb_array", render_size=96)
    hindsight = hindsight_of(env)
    states = hindsight.frames
    panels = TaskPanels(env, hindsight, 96)
    for t, state in enumerate(states):
        env.reset(options={"state": state["bits"][0], "goal": states[hindsight.goal_state]["bits"][0]})
        np.testing.assert_array_equal(panels.draw(t, is_relabeled=True), env.render())


def test_another_environment_is_shown_as_rendered_next_to_a_chart():
    env = Other(render_mode="rgb_array")
    panels = ChartPanels(env, hindsight_of(env), 100)
    for t in (0, 3, 20):
        picture = panels.draw(t, is_relabeled=False)
        assert picture.shape == (100, 100, 3)
        assert (picture[50, 10:90] == t).all()
        assert (picture[[4, 95]] == BACKGROUND).all()
    assert panels.draw(20, is_relabeled=True).shape == (100, 100, 3)


def bars_of(picture, column, length, height=7):
    """Return the colors of the bars in one column of the page, one for each step, ``height`` pixels high."""
    left = MARGIN + column * PANEL + INSET
    cell = LINE / length
    return [tuple(picture[STRIP + 14 - height, round(left + (step + 0.4) * cell)]) for step in range(length)]


@pytest.mark.parametrize("reward_type", ["sparse", "dense"])
def test_bars_show_rewards_and_reached_goals(reward_type):
    env = TaskEnv(PointReach(), reward_type=reward_type)
    hindsight = hindsight_of(env)
    page = RelabelingPage("reach", hindsight, env, "final", PANEL)
    picture = np.asarray(Image.open(io.BytesIO(page.png())))
    assert picture.shape[1] == WIDTH
    rewards = hindsight.episode.rewards, hindsight.rewards
    least, most = np.min(rewards), np.max(rewards)
    for column, reached in enumerate((hindsight.reached_before, hindsight.reached_after)):
        heights = 14 * (rewards[column] - least) / (most - least)
        for level in (2, 7, 12):
            drawn = bars_of(picture, column, 50, level)
            for height, bar, there in zip(heights, drawn, reached, strict=True):
                if abs(height - level) > 1:
                    assert bar == ((REACHED if there else AGENT) if height > level else FAINT)
    before, after = page.sides
    if reward_type == "dense":
        assert before.outcome(9) == f"not reached: return {rewards[0][:9].sum():.3g}"
    else:
        first, count = np.flatnonzero(hindsight.reached_after)[0] + 1, hindsight.reached_after.sum()
        assert after.outcome(50) == f"reached at step {first}: {count} of 50 steps rewarded"
        assert (before.outcome(50), after.outcome(0)) == (
            "not reached: 0 of 50 steps rewarded",
            "not yet reached",
        )


def test_a_task_with_goals_in_another_form_must_define_reached_goal():
    class Forgetful(BitFlipping):
        def reached_goal(self, state):
            return 1 - state["bits"]

    env = TaskEnv(Forgetful())
    with pytest.raises(ValueError, match=r"reached_goal\(state\) of Forgetful must return a goal for which"):
        TaskPanels(env, hindsight_of(env), 64)


def test_wandering_actions_are_correlated_and_in_their_space():
    for space in (spaces.Box(-1, 1, (2,)), spaces.Box(-np.inf, np.inf, (2,)), spaces.Box(0, 4, (2,))):
        act = policies_of(space, "wander")(0)
        actions = np.array([act(None) for _ in range(2000)])
        assert all(space.contains(action) for action in actions)
        assert np.corrcoef(actions[:-1, 0], actions[1:, 0])[0, 1] > 0.7
        assert abs(np.corrcoef(actions[:, 0], actions[:, 1])[0, 1]) < 0.3
    assert spaces.Discrete(4).contains(policies_of(spaces.Discrete(4), "wander")(0)(None))
