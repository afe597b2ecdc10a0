"""``action_key``: an info that says which action was executed replaces the action in the recording."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from her_wrappers import EpisodeRecorder
from tests.support.numbered import DISABLED, recorder_of
from tests.support.other_envs import Other

KEY = "intervene_action"


class Takeover(gym.Wrapper):
    """At every third step of an episode, and at the last one, a person acts instead of the policy."""

    def __init__(self):
        super().__init__(Other())
        self.steps = 0

    def reset(self, **options):
        self.steps = 0
        observation, info = self.env.reset(**options)
        return observation, info | {KEY: np.full(2, 9, np.float32)}  # belongs to no step

    def step(self, action):
        self.steps += 1
        takes_over = self.steps % 3 == 0 or self.steps == 20
        used = np.float32([0.5, -self.steps / 20]) if takes_over else action
        observation, reward, terminated, truncated, info = self.env.step(used)
        return observation, reward, terminated, truncated, info | ({KEY: used} if takes_over else {})


def taken_over(mode, *sinks, **options):
    """Return a recorder of three environments, or one if ``mode`` is None, and a function that steps it."""
    env = SyncVectorEnv([Takeover] * 3, autoreset_mode=mode) if mode else Takeover()
    recorder = recorder_of(env, *sinks, **options)
    recorder.reset(seed=0)

    def step(*action):
        return recorder.step(np.float32(action if mode is None else [action] * 3))

    return recorder, step


@pytest.mark.parametrize("mode", [None, *AutoresetMode])
def test_the_executed_action_is_recorded(mode):
    episodes = []
    recorder, step = taken_over(mode, episodes.append, action_key=KEY)
    for _ in range(70):
        ended = np.logical_or(*step(0.25, 0.125)[2:4])
        if mode is DISABLED and ended.any():
            recorder.reset(options={"reset_mask": ended})
        elif mode is None and ended:
            recorder.reset()
    assert len(episodes) > 2
    for episode in episodes:
        t = np.arange(1, len(episode) + 1)
        executed = (t % 3 == 0) | (t == 20)
        np.testing.assert_allclose(episode.actions[executed, 1], -t[executed] / 20)
        np.testing.assert_array_equal(episode.actions[~executed], [[0.25, 0.125]] * (~executed).sum())


@pytest.mark.parametrize("mode", [None, AutoresetMode.NEXT_STEP])
def test_without_the_key_a_warning_names_it_if_the_actions_differ(mode):
    _, step = taken_over(mode)
    for action in ((0, 0), (0, 0), (0.5, -3 / 20), (0, 0), (0, 0)):  # the third step executes this action
        step(*action)
    with pytest.warns(UserWarning, match="pass action_key='intervene_action'"):
        step(0, 0)


@pytest.mark.parametrize("first", [5, 20])
def test_a_person_who_takes_over_in_later_episodes_is_found_too(first):
    """Infos are searched in the first episodes and in a decreasing share of later ones, not in each."""
    recorder, step = taken_over(None, max_episode_steps=1)

    def play(episodes, steps):
        for episode in range(episodes):
            recorder.reset(seed=episode)
            recorder.env.steps = steps
            step(0, 0)

    play(first, steps=0)
    with pytest.warns(UserWarning, match="intervene_action") as caught:
        play(2 * first, steps=2)  # a person takes over in the third step
    assert len(caught) == 1


def test_actions_of_several_arrays_and_wrong_values_are_errors():
    env = Other()
    env.action_space = spaces.Tuple([env.action_space, spaces.Discrete(2)])
    with pytest.raises(TypeError, match="action_key='x' needs actions that are one array"):
        EpisodeRecorder(env, action_key="x")
    recorder, step = taken_over(None, action_key=KEY)
    recorder.env.step = lambda action: (*Other.step(recorder.unwrapped, action)[:4], {KEY: np.zeros(5)})
    with pytest.raises(ValueError, match=r"action .* shape \(2,\)"):
        step(0, 0)
