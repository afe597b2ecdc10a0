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


ENVS = pytest.mark.parametrize(
    ("env_id", "options"),
    [(env_id, {"reward_type": kind, **each}) for env_id, each in VARIANTS for kind in REWARD_TYPES],
    ids=[f"{name}-{kind}" for name in ids for kind in REWARD_TYPES],
)


@ENVS
def test_rewards_of_a_batch_equal_the_rewards_of_single_goals(env_id, options):
    env = make(env_id, **options)
    for count in (0, 1, 200):
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
    assert len(np.unique(batch)) > 1, "the pairs must contain reached and missed goals"
    grid = [goals.reshape(20, 10, *goals.shape[1:]) for goals in (achieved, desired)]
    np.testing.assert_array_equal(env.compute_reward(*grid, {}), batch.reshape(20, 10))
    reached = env.compute_reward(achieved, achieved, {})
    np.testing.assert_array_equal(reached, 0)
    assert not np.signbit(reached).any()


@ENVS
def test_rewards_of_tensors_equal_those_of_arrays(env_id, options):
    env = make(env_id, **options)
    for count in (0, 200):
        arrays = relabeled_pairs(env, count)
        tensors = [torch.from_numpy(array) for array in arrays]
        rewards = env.compute_reward(*tensors, {})
        terminated = env.compute_terminated(*tensors, {})
        assert (rewards.dtype, terminated.dtype) == (torch.float32, torch.bool)
        # torch rounds square roots differently, so dense rewards may differ in the last bit
        np.testing.assert_allclose(rewards.numpy(), env.compute_reward(*arrays, {}), rtol=3e-7)
        np.testing.assert_array_equal(terminated.numpy(), env.compute_terminated(*arrays, {}))
    one = env.compute_reward(tensors[0][0], tensors[1][0], {})
    assert one.shape == ()
    np.testing.assert_allclose(one, rewards[0], rtol=3e-7)
