"""``action_key``: an info that says which action was executed replaces the action in the recording."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from her_wrappers import EpisodeRecorder, VectorEpisodeRecorder
from tests.support.other_envs import Other

KEY = "intervene_action"


class Takeover(gym.Wrapper):
    """At every third step of an episode, and at the last one, a person acts instead of the policy."""

    def __init__(self, env):
        super().__init__(env)
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


def assert_executed(episodes):
    assert len(episodes) > 2
    for episode in episodes:
        t = np.arange(1, len(episode) + 1)
        executed = (t % 3 == 0) | (t == 20)
        np.testing.assert_allclose(episode.actions[executed, 1], -t[executed] / 20)
        np.testing.assert_array_equal(episode.actions[~executed], [[0.25, 0.125]] * (~executed).sum())


def test_the_executed_action_is_recorded():
    episodes = []
    env = EpisodeRecorder(Takeover(Other()), episodes.append, action_key=KEY)
    for seed in range(4):
        env.reset(seed=seed)
        while not any(env.step(np.float32([0.25, 0.125]))[2:4]):
            pass
    assert_executed(episodes)


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.value)
def test_the_executed_actions_of_vector_environments_are_recorded(mode):
    episodes = []
    envs = SyncVectorEnv([lambda: Takeover(Other())] * 3, autoreset_mode=mode)
    env = VectorEpisodeRecorder(envs, episodes.append, action_key=KEY)
    env.reset(seed=0)
    actions = np.tile(np.float32([0.25, 0.125]), (3, 1))
    for _ in range(70):
        ended = np.logical_or(*env.step(actions)[2:4])
        if mode is AutoresetMode.DISABLED and ended.any():
            env.reset(options={"reset_mask": ended})
    assert_executed(episodes)
    assert (actions == [0.25, 0.125]).all()


@pytest.mark.parametrize("is_vector", [False, True])
def test_without_the_key_a_warning_names_it_if_the_actions_differ(is_vector):
    env = SyncVectorEnv([lambda: Takeover(Other())] * 2) if is_vector else Takeover(Other())
    recorder = VectorEpisodeRecorder(env) if is_vector else EpisodeRecorder(env)
    recorder.reset(seed=0)
    same, other = np.float32([0.5, -3 / 20]), np.zeros(2, np.float32)
    for action in (other, other, same):  # the third step executes this one
        recorder.step(np.tile(action, (2, 1)) if is_vector else action)
    for _ in range(2):
        recorder.step(np.zeros((2, 2) if is_vector else 2, np.float32))
    with pytest.warns(UserWarning, match="pass action_key='intervene_action'"):
        recorder.step(np.zeros((2, 2) if is_vector else 2, np.float32))


@pytest.mark.parametrize("first", [5, 20])
def test_a_person_who_takes_over_in_later_episodes_is_found_too(first):
    """Infos are searched in the first episodes and in a decreasing share of later ones, not in each."""
    env = Takeover(Other())
    recorder = EpisodeRecorder(env, max_episode_steps=1)

    def play(episodes, step):
        for episode in range(episodes):
            recorder.reset(seed=episode)
            env.steps = step
            recorder.step(np.zeros(2, np.float32))

    play(first, step=0)
    with pytest.warns(UserWarning, match="intervene_action") as caught:
        play(2 * first, step=2)  # a person takes over in the third step
    assert len(caught) == 1


def test_actions_of_several_arrays_and_wrong_values_are_errors():
    env = Other()
    env.action_space = spaces.Tuple([env.action_space, spaces.Discrete(2)])
    with pytest.raises(TypeError, match="action_key='x' needs actions that are one array"):
        EpisodeRecorder(env, action_key="x")

    class Wrong(gym.Wrapper):
        def step(self, action):
            observation, reward, terminated, truncated, info = self.env.step(action)
            return observation, reward, terminated, truncated, info | {KEY: np.zeros(5)}

    recorder = EpisodeRecorder(Wrong(Other()), action_key=KEY)
    recorder.reset(seed=0)
    with pytest.raises(ValueError, match=r"action .* shape \(2,\)"):
        recorder.step(np.zeros(2, np.float32))
