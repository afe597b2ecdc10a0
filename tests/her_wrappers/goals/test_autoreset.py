"""declared_mode: the autoreset mode of a vector environment, also if environments share their metadata."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper

from her_envs import PointReach, TaskEnv
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, VectorEpisodeRecorder
from her_wrappers.goals.autoreset import declared_mode
from tests.support.specimens.reach import Reach


@pytest.fixture
def shared():
    """Return an environment whose metadata dict is that of another one, as before Gymnasium 1.4."""
    earlier = SyncVectorEnv([Reach], autoreset_mode=AutoresetMode.SAME_STEP)
    later = SyncVectorEnv([Reach], autoreset_mode=AutoresetMode.NEXT_STEP)
    earlier.metadata = later.metadata
    return earlier


def test_a_later_vector_environment_does_not_change_the_mode_of_an_earlier_one(shared):
    assert shared.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert declared_mode(shared) is AutoresetMode.SAME_STEP
    assert declared_mode(VectorWrapper(shared)) is AutoresetMode.SAME_STEP


def test_metadata_of_a_wrapper_have_precedence(shared):
    wrapper = VectorWrapper(shared)
    wrapper.metadata = {"autoreset_mode": AutoresetMode.DISABLED}
    assert declared_mode(wrapper) is AutoresetMode.DISABLED


@pytest.mark.parametrize("metadata", [{}, {"autoreset_mode": "SameStep"}, {"autoreset_mode": None}])
def test_metadata_without_a_valid_mode_give_none(shared, metadata):
    shared.metadata = metadata
    assert declared_mode(shared) is None


def test_a_mode_in_the_metadata_alone_is_used():
    class Own(gym.vector.VectorEnv):
        metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 - as VectorEnv declares it

    assert declared_mode(Own()) is AutoresetMode.SAME_STEP


def test_episodes_are_recorded_by_the_mode_that_the_environment_has():
    """By the mode in the shared metadata, the step after each episode would be a reset."""
    env = SyncVectorEnv([lambda: TaskEnv(PointReach(), max_steps=3)], autoreset_mode=AutoresetMode.SAME_STEP)
    other = SyncVectorEnv(
        [lambda: TaskEnv(PointReach(), max_steps=3)], autoreset_mode=AutoresetMode.NEXT_STEP
    )
    env.metadata = other.metadata
    episodes = []
    recorder = VectorEpisodeRecorder(env, episodes.append)
    recorder.reset(seed=0)
    for _ in range(12):
        recorder.step(np.zeros((1, 2), np.float32))
    assert [len(episode) for episode in episodes] == [3] * 4


def autoreset(**options):
    return gym.wrappers.Autoreset(TaskEnv(PointReach(), max_steps=3, **options))


def assert_no_step_is_a_reset(buffer):
    assert buffer.num_episodes == 4
    for episode in buffer.episodes():
        assert len(episode) == 3
        moves = np.diff(episode.observations["achieved_goal"], axis=0)
        np.testing.assert_allclose(moves, 0.05 * episode.actions, atol=1e-6)


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: gym.wrappers.TimeLimit(env, 100)])
def test_resets_of_the_wrapper_autoreset_are_not_recorded_as_steps(wrap):
    env = wrap(autoreset())
    buffer = HindsightReplayBuffer.for_env(env, seed=0, n_sampled_goal=0)
    recorder = EpisodeRecorder(env, buffer.add_episode, info_keys=["is_success"])
    recorder.reset(seed=0)
    for _ in range(15):
        recorder.step(np.full(2, 0.1, np.float32))
    assert_no_step_is_a_reset(buffer)


def test_add_skips_the_resets_of_the_wrapper_autoreset():
    env = autoreset()
    buffer = HindsightReplayBuffer.for_env(env, seed=0, n_sampled_goal=0)
    (obs, _), ended = env.reset(seed=0), False
    for _ in range(15):
        action = np.full(2, 0.1, np.float32)
        next_obs, reward, terminated, truncated, info = env.step(action)
        buffer.add(obs, action, reward, next_obs, terminated, truncated, info, skip=ended)
        obs, ended = next_obs, terminated or truncated
    assert_no_step_is_a_reset(buffer)
