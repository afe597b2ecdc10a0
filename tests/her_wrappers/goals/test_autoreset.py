"""declared_mode: the autoreset mode of a vector environment, also if environments share their metadata."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper

from her_envs import PointReach, TaskEnv
from her_wrappers import EpisodeRecorder
from her_wrappers.goals.autoreset import declared_mode
from tests.support.specimens.reach import Reach


@pytest.fixture
def shared():
    """Return an environment whose metadata dict is that of another one, as before Gymnasium 1.4."""
    earlier = SyncVectorEnv([Reach], autoreset_mode=AutoresetMode.SAME_STEP)
    later = SyncVectorEnv([Reach], autoreset_mode=AutoresetMode.NEXT_STEP)
    earlier.metadata = later.metadata
    return earlier


def test_a_later_vector_environment_does_not_change_the_mode_of_an_earlier_one_but_a_wrapper_may(shared):
    assert shared.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    wrapper = VectorWrapper(shared)
    assert declared_mode(shared) is declared_mode(wrapper) is AutoresetMode.SAME_STEP
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


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: gym.wrappers.TimeLimit(env, 100)])
def test_resets_of_the_wrapper_autoreset_are_not_recorded_as_steps(wrap):
    env, episodes = wrap(gym.wrappers.Autoreset(TaskEnv(PointReach(), max_steps=3))), []
    recorder = EpisodeRecorder(env, episodes.append, info_keys=["is_success"])
    recorder.reset(seed=0)
    for _ in range(15):
        recorder.step(np.full(2, 0.1, np.float32))
    assert [len(episode) for episode in episodes] == [3] * 4
    for episode in episodes:
        moves = np.diff(episode.observations["achieved_goal"], axis=0)
        np.testing.assert_allclose(moves, 0.05 * episode.actions, atol=1e-6)
