"""Rewards of every bundled task are computed as relabeling needs: for any batch, in NumPy and torch."""

import numpy as np
import pytest
import torch

from tests.support.bundled import VARIANTS, ids, make

REWARD_TYPES = ("sparse", "dense")


def relabeled_pairs(env, count, seed=0):
    """Return pairs of goals that episodes achieved: some equal, some near, some far."""
    rng = np.random.default_rng(seed)
    achieved = []
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    while len(achieved) < 50:
        achieved.append(observation["achieved_goal"])
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        # Short episodes give pairs of two episodes: random actions rarely move some achieved goals.
        if terminated or truncated or len(achieved) % 7 == 0:
            achieved.append(observation["achieved_goal"])
            observation, _ = env.reset()
    first = rng.integers(len(achieved), size=count)
    second = np.minimum(first + rng.integers(3, size=count), len(achieved) - 1)
    # np.array of an empty list would lose shape and dtype
    pool = np.array(achieved)
    return pool[first], pool[second]


@pytest.mark.parametrize("reward_type", REWARD_TYPES)
@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
@pytest.mark.parametrize("count", [0, 1, 200])
def test_rewards_of_a_batch_equal_the_rewards_of_single_goals(env_id, options, reward_type, count):
    env = make(env_id, reward_type=reward_type, **options)
    achieved, desired = relabeled_pairs(env, count)

    batch = env.compute_reward(achieved, desired, {})
    terminated = env.compute_terminated(achieved, desired, {})
    singles = [env.compute_reward(a, d, {}) for a, d in zip(achieved, desired, strict=True)]
    singly_terminated = [env.compute_terminated(a, d, {}) for a, d in zip(achieved, desired, strict=True)]

    assert batch.shape == terminated.shape == (count,)
    assert batch.dtype == np.float32
    assert terminated.dtype == bool
    assert all(np.shape(single) == () and single.dtype == np.float32 for single in singles)
    np.testing.assert_array_equal(batch, singles)
    np.testing.assert_array_equal(terminated, np.array(singly_terminated, bool))
    if count == 200:
        assert len(np.unique(batch)) > 1, "the pairs must contain reached and missed goals"


@pytest.mark.parametrize("reward_type", REWARD_TYPES)
@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
def test_any_number_of_leading_axes_gives_the_same_rewards(env_id, options, reward_type):
    env = make(env_id, reward_type=reward_type, **options)
    achieved, desired = relabeled_pairs(env, 12)
    flat = env.compute_reward(achieved, desired, {})

    shaped = env.compute_reward(
        achieved.reshape(3, 4, *achieved.shape[1:]), desired.reshape(3, 4, *desired.shape[1:]), {}
    )

    np.testing.assert_array_equal(shaped, flat.reshape(3, 4))


@pytest.mark.parametrize("reward_type", REWARD_TYPES)
@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
@pytest.mark.parametrize("count", [0, 200])
def test_rewards_of_tensors_equal_those_of_arrays(env_id, options, reward_type, count):
    env = make(env_id, reward_type=reward_type, **options)
    arrays = relabeled_pairs(env, count)
    tensors = [torch.from_numpy(array) for array in arrays]

    rewards = env.compute_reward(*tensors, {})
    terminated = env.compute_terminated(*tensors, {})

    assert isinstance(rewards, torch.Tensor)
    assert rewards.dtype == torch.float32
    assert terminated.dtype == torch.bool
    # torch rounds square roots differently, so dense rewards may differ in the last bit
    np.testing.assert_allclose(rewards.numpy(), env.compute_reward(*arrays, {}), rtol=3e-7)
    np.testing.assert_array_equal(terminated.numpy(), env.compute_terminated(*arrays, {}))
    if count:
        one = env.compute_reward(tensors[0][0], tensors[1][0], {})
        assert one.shape == ()
        np.testing.assert_allclose(one, rewards[0], rtol=3e-7)


@pytest.mark.parametrize("reward_type", REWARD_TYPES)
@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
def test_reward_of_an_exactly_reached_goal_is_positive_zero(env_id, options, reward_type):
    env = make(env_id, reward_type=reward_type, **options)
    goals, _ = relabeled_pairs(env, 20)

    rewards = env.compute_reward(goals, goals, {})

    np.testing.assert_array_equal(rewards, 0)
    assert not np.signbit(rewards).any()
