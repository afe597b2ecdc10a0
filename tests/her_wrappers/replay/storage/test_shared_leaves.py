"""Observations that equal the achieved goal in all episodes are stored once."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers import Episode, HindsightReplayBuffer
from tests.support.counting import ACTIONS
from tests.support.odd_spaces import image_buffer, image_episode


def test_an_image_that_is_observation_and_achieved_goal_is_stored_once():
    """Stable-Baselines3 stores six images per transition: three keys of two observations."""
    for apart, most in ((False, 0.2), (True, 0.36)):
        buffer = image_buffer(buffer_size=5000, seed=0)
        for number in range(100):
            buffer.add_episode(image_episode(number, 50, apart=apart))
        assert buffer.nbytes / len(buffer) < most * 6 * 36 * 36


@pytest.mark.parametrize("first_apart", [0, 1, 3])
def test_images_are_stored_exactly_when_observation_and_goal_begin_to_differ(first_apart):
    buffer = image_buffer(buffer_size=100, seed=0)
    episodes = [image_episode(number, 12, apart=number >= first_apart) for number in range(20)]
    for number, episode in enumerate(episodes):
        buffer.add_episode(episode)
        batch = buffer.sample(40)
        for i in range(40):
            source, t = episodes[batch.episode[i] // 12], batch.index[i] % 12
            for key in ("observation", "achieved_goal"):
                np.testing.assert_array_equal(batch.observations[key][i], source.observations[key][t])
                np.testing.assert_array_equal(
                    batch.next_observations[key][i], source.observations[key][t + 1]
                )
            goal = batch.goal_index[i]
            wanted = (
                episodes[goal // 12].observations["achieved_goal"][goal % 12 + 1]
                if batch.relabeled[i]
                else source.observations["desired_goal"][t]
            )
            np.testing.assert_array_equal(batch.observations["desired_goal"][i], wanted)
        for array in (*batch.observations.values(), *batch.next_observations.values()):
            array[...] = number  # a batch owns its memory


PICTURES = spaces.Dict(
    observation=spaces.Box(-9, 9, (2,), np.float32),
    achieved_goal=spaces.Box(-9, 9, (2,), np.float32),
    desired_goal=spaces.Box(-9, 9, (2,), np.float32),
)


def same_array_episode(values, rewards):
    observations = {
        "observation": values,
        "achieved_goal": np.abs(values),
        "desired_goal": np.ones_like(values),
    }
    return Episode(observations, np.zeros((len(rewards), 1)), rewards, terminated=False, truncated=True)


def test_a_zero_keeps_its_sign_where_the_observation_equals_the_goal():
    buffer = HindsightReplayBuffer(PICTURES, ACTIONS, compute_reward=lambda a, d, i: np.zeros(len(a)))
    buffer.add_episode(same_array_episode(np.full((3, 2), -0.0, np.float32), np.zeros(2)))
    assert np.signbit(buffer.sample(20).observations["observation"]).all()
    assert not np.signbit(buffer.sample(20).observations["achieved_goal"]).any()


def test_a_rejected_episode_takes_no_memory():
    buffer = HindsightReplayBuffer(PICTURES, ACTIONS, compute_reward=lambda a, d, i: np.zeros(len(a)))
    buffer.add_episode(same_array_episode(np.ones((3, 2), np.float32), np.zeros(2)))
    before = buffer.nbytes
    with pytest.raises(ValueError, match="rewards must be finite"):
        buffer.add_episode(same_array_episode(-np.ones((3, 2), np.float32), np.full(2, np.nan)))
    assert buffer.nbytes == before
    buffer.add_episode(same_array_episode(-np.ones((3, 2), np.float32), np.zeros(2)))
    batch = buffer.sample(50)
    np.testing.assert_array_equal(
        np.abs(batch.observations["observation"]), batch.observations["achieved_goal"]
    )
    assert buffer.nbytes > before
    buffer.verify()
