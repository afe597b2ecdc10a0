"""Tests of the statements about Stable-Baselines3 in docs/comparison.md; they do not use our buffer."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import DQN, HerReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv

from tests.support.counting import ACTIONS, SPACE, compute_reward, counting_episode
from tests.support.sb3_versions import needs_n_steps

pytestmark = pytest.mark.filterwarnings("ignore")


class Rewards(gym.Env):
    """An environment with only the attributes that the buffer uses."""

    observation_space, action_space = SPACE, ACTIONS

    def compute_reward(self, achieved, desired, info):
        return compute_reward(achieved, desired, info)


def make_buffer(size, **options):
    return HerReplayBuffer(size, SPACE, ACTIONS, env=DummyVecEnv([Rewards]), device="cpu", **options)


def add(buffer, number, length):
    """Add a counting episode that terminates at its goal, which no step reaches."""
    episode = counting_episode(number, length)
    states = [{key: rows[t : t + 1] for key, rows in episode.observations.items()} for t in range(length + 1)]
    for t in range(length):
        last = np.array([t + 1 == length])
        buffer.add(states[t], states[t + 1], episode.actions[t : t + 1], np.array([-1.0]), last, [{}])


def test_a_relabeled_success_does_not_terminate():
    """Relabeled rows keep the flag of the original goal (issue 627 of Stable-Baselines3)."""
    model = DQN(
        "MultiInputPolicy",
        BitFlippingEnv(5),
        replay_buffer_class=HerReplayBuffer,
        learning_starts=10**6,
        buffer_size=2000,
        seed=0,
    )
    model.learn(1000)
    batch = model.replay_buffer.sample(1000)
    relabeled = (batch.observations["desired_goal"] != 1).any(1)
    successes = relabeled & (batch.rewards[:, 0] == 0)
    assert successes.sum() > 100
    assert batch.dones[successes].sum() == 0


def test_of_one_row_none_is_relabeled():
    buffer = make_buffer(100)
    add(buffer, 0, 5)
    assert {buffer.sample(1).observations["desired_goal"][0, 1].item() for _ in range(100)} == {-1}


def test_an_episode_as_long_as_the_buffer_is_never_sampled():
    buffer = make_buffer(5)
    add(buffer, 0, 5)
    with pytest.raises(RuntimeError, match="before the end of the first episode"):
        buffer.sample(1)


def test_of_a_longer_episode_a_few_steps_remain():
    buffer = make_buffer(10)
    add(buffer, 0, 13)
    assert (buffer.ep_length > 0).sum() == 3


def test_every_slot_has_a_dict_though_infos_are_not_kept():
    assert make_buffer(1000).infos.size == 1000


def test_randomness_is_numpys_global_generator():
    buffer = make_buffer(100)
    add(buffer, 0, 50)
    batches = []
    for _ in range(2):
        np.random.seed(3)  # noqa: NPY002 - the subject of the test
        batches.append(buffer.sample(50).observations["observation"])
    assert (batches[0] == batches[1]).all()


@needs_n_steps
def test_n_steps_is_ignored_with_a_warning():
    """The warning was requested in issue 2274 of Stable-Baselines3."""
    options = {"replay_buffer_class": HerReplayBuffer, "buffer_size": 100, "n_steps": 3}
    with pytest.warns(UserWarning, match="`n_steps=3` is ignored"):
        model = DQN("MultiInputPolicy", BitFlippingEnv(5), **options)
    assert not hasattr(model.replay_buffer, "n_steps")
