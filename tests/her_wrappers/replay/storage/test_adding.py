"""Added episodes are returned exactly, at any position in the ring and with any rewards."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from tests.support.buffers import plain_buffer
from tests.support.counting import SPACE, counting_episode

LARGEST = float(np.finfo(np.float32).max)
ROUNDS_TO_LARGEST = np.nextafter(2.0**128 - 2.0**103, 0)


def assert_same(episode, expected):
    """Assert that all arrays are bit-identical."""
    for key, leaf in expected.observations.items():
        np.testing.assert_array_equal(episode.observations[key], leaf)
    np.testing.assert_array_equal(episode.actions, expected.actions)
    np.testing.assert_array_equal(episode.rewards, expected.rewards)
    assert (episode.terminated, episode.truncated) == (expected.terminated, expected.truncated)


# --- positions in the ring ------------------------------------------------------------------------


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("lengths", [(1,), (1, 1, 1), (3,), (2, 1), (1, 4, 2), (7,)])
def test_episodes_that_wrap_around_are_returned_exactly(lengths, together):
    buffer, added = plain_buffer(7), []
    for turn in range(40):  # more than there are slots of states
        new = [
            counting_episode(10 * turn + i, length, terminated=i % 2 == 0, rewards=np.arange(length) + 0.5)
            for i, length in enumerate(lengths)
        ]
        added += new
        if together:
            buffer.add_episodes(new)
        else:
            for episode in new:
                buffer.add_episode(episode)
        stored = list(buffer.episodes())
        for episode, expected in zip(reversed(stored), reversed(added), strict=False):
            assert_same(episode, expected)
        assert len(buffer) == sum(map(len, stored)) >= min(7, sum(map(len, added))) - max(lengths) + 1
        buffer.verify()


# --- deduplicated leaves ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "observation_values", [np.array([1.0, 0.0]), np.array([0, 1.875], np.float32).view(np.int32)]
)
def test_an_observation_whose_bits_are_a_goals_in_another_dtype_is_not_the_goal(observation_values):
    box = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    goals = np.tile(np.array([0, 1.875], np.float32), (4, 1))
    observations = {
        "observation": np.tile(observation_values, (4, 1)),
        "achieved_goal": goals,
        "desired_goal": goals,
    }
    buffer = plain_buffer(3, spaces.Dict(dict.fromkeys(observations, box)))
    buffer.add_episode(counting_episode(0, 3, observations=observations))
    [episode] = buffer.episodes()
    np.testing.assert_array_equal(episode.observations["observation"], observations["observation"])


# --- rewards --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rewards",
    [
        np.array([LARGEST, -LARGEST, 0.0]),
        np.array([ROUNDS_TO_LARGEST, -ROUNDS_TO_LARGEST, 1e-300]),
        np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0]),
        np.array([True, False, True]),
        np.array([1, 2, 65504], np.float16),
        np.array([LARGEST, -0.0, 1], np.float32),
        np.array([3, 2**64 - 1, 0], np.uint64),
    ],
    ids=str,
)
def test_rewards_are_rounded_to_float32(rewards):
    buffer = plain_buffer(3)
    buffer.add_episode(counting_episode(0, 3, rewards=rewards))
    [episode] = buffer.episodes()
    assert episode.rewards.tolist() == rewards.astype(np.float32).tolist()
    assert np.isfinite(episode.rewards).all()


@pytest.mark.parametrize("reward", [2.0**128 - 2.0**103, -1e39, 1e300, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("t", [0, 2])
def test_the_error_for_a_reward_beyond_float32_names_step_and_episode(reward, t):
    buffer, rewards = plain_buffer(9), np.zeros(3)
    rewards[t] = reward
    bad = counting_episode(1, 3, rewards=rewards)
    with pytest.raises(ValueError, match=rf"^rewards must be finite as float32, got .* at step {t}$"):
        buffer.add_episode(bad)
    message = rf"^episodes\[1\]: rewards must be finite as float32, got .* at step {t}$"
    with pytest.raises(ValueError, match=message):
        buffer.add_episodes([counting_episode(0, 2), bad])
    assert (len(buffer), buffer.num_episodes) == (0, 0)


def test_a_reward_beyond_float64_is_an_error_without_a_warning():
    rewards = np.array([0, np.longdouble("1e4000")], np.longdouble)
    with pytest.raises(ValueError, match=r"^rewards must be finite as float32, got .* at step 1$"):
        plain_buffer(9).add_episode(counting_episode(0, 2, rewards=rewards))


@pytest.mark.parametrize("sign", [1, -1])
def test_add_takes_the_rewards_that_add_episode_takes(sign):
    buffer = plain_buffer(3)
    observation_values = dict.fromkeys(SPACE, np.zeros(2))
    with pytest.raises(ValueError, match=r"^reward must be finite as float32, got .* at step 0$"):
        buffer.add(
            observation_values, np.zeros(1), sign * (2.0**128 - 2.0**103), observation_values, False, True
        )
    buffer.add(observation_values, np.zeros(1), sign * ROUNDS_TO_LARGEST, observation_values, False, True)
    [episode] = buffer.episodes()
    assert episode.rewards.tolist() == [sign * LARGEST]
