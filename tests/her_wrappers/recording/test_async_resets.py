"""VectorEpisodeRecorder with AsyncVectorEnv without shared memory, which resets twice after an episode."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv

from her_wrappers import VectorEpisodeRecorder
from tests.support.numbered_vector_env import NEXT_STEP


class Forgetful(gym.Env):
    """An environment with episodes of three steps; with ``forgets``, one info lacks its key."""

    observation_space = spaces.Box(-9, 999, (2,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, *, forgets):
        self.episode, self.t, self.forgets = -1, 0, forgets

    def reset(self, *, seed=None, options=None):
        self.episode, self.t = self.episode + 1, 0
        return np.array([self.episode, 0.0]), {}

    def step(self, action):
        self.t += 1
        info = {} if self.forgets and (self.t, self.episode) == (3, 0) else {"k": 1.0}
        return np.array([self.episode, self.t], float), 1.0, self.t == 3, False, info


def recorder(sink, *, forgets=False, num_envs=2):
    makers = [lambda: Forgetful(forgets=forgets)] * num_envs
    envs = AsyncVectorEnv(makers, shared_memory=False, autoreset_mode=NEXT_STEP)
    return VectorEpisodeRecorder(envs, sink, info_keys=["k"])


def assert_whole(episodes):
    """Assert that all steps of each recorded episode are in order, and belong to the same episode."""
    for episode in episodes:
        states = episode.observations
        assert (states[:, 0] == states[0, 0]).all()
        assert states[:, 1].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("resets", [1, 2, 3])
def test_several_resets_after_an_end_do_not_join_two_episodes(resets):
    got = []
    envs = recorder(got.append)
    envs.reset()
    while not got:
        envs.step(np.zeros(2, int))
    for _ in range(resets):
        envs.reset()
    while len(got) < 4:
        envs.step(np.zeros(2, int))
    envs.close()
    assert_whole(got)


def test_an_error_at_the_last_step_does_not_join_two_episodes():
    got = []
    envs = recorder(got.append, forgets=True)
    envs.reset()
    for _ in range(2):
        envs.step(np.zeros(2, int))
    with pytest.raises(ValueError, match="info has no 'k' at step 2 of environment 0"):
        envs.step(np.zeros(2, int))
    assert [(len(episode), episode.truncated) for episode in got] == [(2, True), (2, True)]
    envs.reset()
    while len(got) < 4:
        envs.step(np.zeros(2, int))
    envs.close()
    assert_whole(got[2:])
