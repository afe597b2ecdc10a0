"""Recorders do not change the environments, above and below other wrappers."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import her_envs
from her_wrappers import EpisodeRecorder, VectorEpisodeRecorder
from tests.support.bundled import VARIANTS, ids, make
from tests.support.numbered import NEXT_STEP

modes = pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.value)


def native(mode):
    return her_envs.TaskVectorEnv(her_envs.BitFlipping(n_bits=4), 3, autoreset_mode=mode)


def sync(mode):
    return SyncVectorEnv([lambda: her_envs.TaskEnv(her_envs.BitFlipping(n_bits=4))] * 3, autoreset_mode=mode)


def run(env, steps):
    """Step with random actions; reset environments that ended. Return everything that was returned."""
    env.action_space.seed(0)
    returned = [env.reset(seed=1)]
    is_single = not isinstance(env, gym.vector.VectorEnv)
    for _ in range(steps):
        returned.append(env.step(env.action_space.sample()))
        ended = returned[-1][2] | returned[-1][3]
        if is_single and ended:
            returned.append(env.reset())
        elif not is_single and env.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            returned.append(env.reset(options={"reset_mask": ended}))
    return returned


@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
def test_values_returned_by_one_environment_do_not_change(env_id, options):
    plain, recorder = make(env_id, **options), EpisodeRecorder(make(env_id, **options))
    np.testing.assert_equal(run(recorder, 100), run(plain, 100))


@modes
@pytest.mark.parametrize("make", [native, sync])
def test_values_returned_by_vector_environments_do_not_change(make, mode):
    recorder = VectorEpisodeRecorder(make(mode), [].append, info_keys=["is_success"])
    assert data_equivalence(run(make(mode), 30), run(recorder, 30), exact=True)


def test_attributes_are_those_of_the_environments():
    one = gym.make("her_envs/Counting-v0")
    recorder = EpisodeRecorder(one, [].append)
    assert recorder.spec == one.spec
    assert "EpisodeRecorder" not in str(gym.make(recorder.spec))
    env = gym.make_vec("her_envs/BitFlipping-v0", num_envs=3)
    recorder = VectorEpisodeRecorder(env, [].append)
    assert (recorder.spec, recorder.unwrapped) == (env.spec, env)
    assert recorder.metadata is env.metadata


@modes
def test_the_sub_environments_can_have_wrappers(mode):
    """The wrappers are a time limit, statistics, flattened observations, and a recorder."""
    within, episodes = [], []

    def make():
        env = her_envs.TaskEnv(her_envs.PointReach(), max_steps=100)
        env = EpisodeRecorder(gym.wrappers.TimeLimit(env, 5), within.append)
        return gym.wrappers.FlattenObservation(gym.wrappers.RecordEpisodeStatistics(env))

    env = VectorEpisodeRecorder(SyncVectorEnv([make] * 2, autoreset_mode=mode), episodes.append)
    run(env, 25)
    env.close()
    lengths = [len(episode) for episode in episodes]
    assert lengths == ([5] * 8 + [1] * 2 if mode is NEXT_STEP else [5] * 10)
    assert all(episode.truncated and not episode.terminated for episode in episodes)
    assert all(episode.observations.shape == (len(episode) + 1, 6) for episode in episodes)
    assert [len(episode) for episode in within] == lengths
