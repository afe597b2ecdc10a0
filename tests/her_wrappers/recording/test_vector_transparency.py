"""VectorEpisodeRecorder does not change the environments, above and below other wrappers."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

import her_envs
from her_wrappers import EpisodeRecorder, VectorEpisodeRecorder
from her_wrappers.trees import map_tree
from tests.support.numbered import DISABLED, NEXT_STEP, SAME_STEP

MODES = [NEXT_STEP, SAME_STEP, DISABLED]


def bit_flipping():
    return her_envs.TaskEnv(her_envs.BitFlipping(n_bits=4))


def native(mode):
    return her_envs.TaskVectorEnv(her_envs.BitFlipping(n_bits=4), 3, autoreset_mode=mode)


def sync(mode):
    return SyncVectorEnv([bit_flipping] * 3, autoreset_mode=mode)


def run(env, steps, seen=lambda returned: None):
    """Step with random actions; in mode DISABLED reset the environments that ended."""
    env.action_space.seed(0)
    seen(env.reset(seed=1))
    for _ in range(steps):
        returned = env.step(env.action_space.sample())
        seen(returned)
        ended = returned[2] | returned[3]
        if env.metadata["autoreset_mode"] is DISABLED and ended.any():
            seen(env.reset(options={"reset_mask": ended}))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("make", [native, sync])
def test_returned_values_do_not_change(make, mode):
    plain, recorded = [], []
    run(make(mode), 30, plain.append)
    run(VectorEpisodeRecorder(make(mode), [].append, info_keys=["is_success"]), 30, recorded.append)
    assert data_equivalence(plain, recorded, exact=True)


def test_attributes_are_those_of_the_environments():
    env = gym.make_vec("her_envs/BitFlipping-v0", num_envs=3)
    recorder = VectorEpisodeRecorder(env, [].append)
    assert recorder.spec is env.spec
    assert "VectorEpisodeRecorder" not in str(gym.make_vec(recorder.spec, num_envs=1))
    assert recorder.unwrapped is env
    assert recorder.metadata is env.metadata
    assert recorder.single_observation_space is env.single_observation_space


@pytest.mark.parametrize("above", [True, False], ids=["above", "below"])
def test_the_recorder_works_above_and_below_other_wrappers(above):
    episodes = []
    env = sync(NEXT_STEP)
    env = env if above else VectorEpisodeRecorder(env, episodes.append)
    env = statistics = wrappers.RecordEpisodeStatistics(wrappers.FlattenObservation(env))
    env = VectorEpisodeRecorder(env, episodes.append) if above else env
    run(env, 40)
    assert len(episodes) == statistics.episode_count
    assert sorted(episode.rewards.sum() for episode in episodes) == sorted(statistics.return_queue)
    for episode in episodes:
        values = episode.observations if above else episode.observations["achieved_goal"]
        assert values.shape == (len(episode) + 1, 12 if above else 4)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_the_sub_environments_can_have_wrappers(kind, mode):
    """The wrappers are a time limit, statistics, flattened observations, and a recorder."""
    within, episodes = [], []

    def make():
        env = her_envs.TaskEnv(her_envs.PointReach(), max_steps=100)
        env = EpisodeRecorder(gym.wrappers.TimeLimit(env, 5), within.append)
        return gym.wrappers.FlattenObservation(gym.wrappers.RecordEpisodeStatistics(env))

    env = VectorEpisodeRecorder(kind([make] * 2, autoreset_mode=mode), episodes.append)
    run(env, 25)
    env.close()
    if mode is AutoresetMode.NEXT_STEP:
        assert [len(episode) for episode in episodes] == [5] * 8 + [1] * 2
    else:
        assert [len(episode) for episode in episodes] == [5] * 10
    assert all(episode.truncated and not episode.terminated for episode in episodes)
    assert all(episode.observations.shape == (len(episode) + 1, 6) for episode in episodes)
    if kind is SyncVectorEnv:
        assert [len(episode) for episode in within] == [len(episode) for episode in episodes]


class Tensors(gym.vector.VectorWrapper):
    """A vector environment that returns tensors."""

    def reset(self, *, seed=None, options=None):
        observations, infos = self.env.reset(seed=seed, options=options)
        return map_tree(torch.as_tensor, observations), infos

    def step(self, actions):
        *parts, infos = self.env.step(actions)
        return (*(map_tree(torch.as_tensor, part) for part in parts), infos)


@pytest.mark.parametrize("mode", MODES[:2], ids=lambda mode: mode.value)
def test_tensors_are_recorded_as_arrays(mode):
    plain, recorded = [], []
    run(VectorEpisodeRecorder(native(mode), plain.append), 20)
    run(VectorEpisodeRecorder(Tensors(native(mode)), recorded.append), 20)
    for one, other in zip(plain, recorded, strict=True):
        np.testing.assert_array_equal(one.observations["observation"], other.observations["observation"])
        np.testing.assert_array_equal(one.rewards, other.rewards)
        assert isinstance(other.observations["observation"], np.ndarray)
