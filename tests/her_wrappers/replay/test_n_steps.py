"""Returns of several steps under one goal; the oracle tests them with random programs in every mode."""

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common import buffers

import her_envs  # noqa: F401 - registers the environments
from her_wrappers.replay.batch import window_lengths
from tests.support.buffers import filled
from tests.support.counting import ACTIONS, counting_buffer, counting_episode
from tests.support.equality import assert_same_batches, assert_same_tree
from tests.support.sb3_versions import needs_n_steps

GAMMA = 0.9
LENGTHS = 4, 1, 7, 20, 2


def test_sampled_rows_and_goals_do_not_depend_on_n_steps(device):
    options = {"gamma": GAMMA}
    one, five = (filled(device, LENGTHS, n_steps=n_steps, **options) for n_steps in (1, 5))
    for _ in range(20):
        batch, other = one.sample(30).to_numpy(), five.sample(30).to_numpy()
        for name in ("observations", "actions", "relabeled", "index", "episode", "goal_index", "strategy"):
            assert_same_tree(getattr(batch, name), getattr(other, name))
    assert_same_batches(*(filled(device, [1] * 9, n_steps=n_steps, gamma=GAMMA) for n_steps in (1, 4)))


def test_a_sum_of_rewards_may_exceed_float32_on_the_way():
    buffer = counting_buffer(n_steps=3, gamma=1.0, n_sampled_goal=0)
    buffer.add_episode(counting_episode(0, 3, rewards=np.array([3e38, 3e38, -3e38])))
    batch = buffer.sample(1)
    while batch.index[0]:
        batch = buffer.sample(1)
    np.testing.assert_allclose(batch.rewards, 3e38, rtol=1e-6)


@needs_n_steps
@pytest.mark.parametrize("n_steps", [3, 8])
def test_recorded_goals_have_the_returns_of_stable_baselines3(n_steps):
    """The returns are compared, not the discounts, which are not 0 at terminations in Stable-Baselines3."""
    observations = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    theirs = buffers.NStepReplayBuffer(64, observations, ACTIONS, device="cpu", n_steps=n_steps, gamma=GAMMA)
    ours, rng = counting_buffer(n_steps=n_steps, gamma=GAMMA, n_sampled_goal=0), np.random.default_rng(0)
    for number, length in enumerate([4, 1, 9, 6, 12, 3]):
        rewards, terminated = rng.normal(size=length), number % 2 == 0
        episode = counting_episode(number, length, rewards=rewards, terminated=terminated)
        ours.add_episode(episode)
        seen = episode.observations["observation"]
        for t in range(length):
            done, info = t + 1 == length, {"TimeLimit.truncated": t + 1 == length and not terminated}
            theirs.add(seen[t], seen[t + 1], episode.actions[t], rewards[t], np.array([done]), [info])
    batch = ours.sample(200)
    expected = theirs._get_samples(batch.index)
    np.testing.assert_array_equal(batch.next_observations["observation"], expected.next_observations)
    np.testing.assert_array_equal(batch.terminations, expected.dones[:, 0].bool())
    np.testing.assert_allclose(batch.rewards, expected.rewards[:, 0], rtol=1e-5, atol=1e-6)
    discounts = (expected.discounts * (1 - expected.dones))[:, 0]
    np.testing.assert_allclose(batch.discounts, discounts, rtol=1e-6)


@pytest.mark.parametrize("gamma", [0.1, 0.999])
def test_window_lengths_are_read_from_discounts(gamma):
    lengths = np.arange(1, 200)
    lengths = lengths[np.float32(gamma) ** lengths > 1e-30]  # smaller ones have few bits as float32
    assert window_lengths(np.float32(np.power(gamma, lengths)), gamma).tolist() == lengths.tolist()
    assert window_lengths(np.zeros(3, np.float32), gamma).tolist() == [1, 1, 1]
    assert window_lengths(np.float32([1, 0]), 1.0).tolist() == [1, 1]
