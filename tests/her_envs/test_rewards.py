"""Rewards of every bundled task are computed as relabeling needs: for any batch, in NumPy and torch."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from tests.support.bundled import VARIANTS, ids


@pytest.mark.parametrize("reward_type", ["sparse", "dense"])
@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
def test_rewards_of_a_batch_equal_those_of_single_goals_and_of_tensors(env_id, options, reward_type):
    env = gym.make_vec(env_id, num_envs=40, reward_type=reward_type, **options)
    env.action_space.seed(0)
    before, _ = env.reset(seed=0)
    after, *_ = env.step(env.action_space.sample())
    # Equal, near and far goals
    achieved = np.concatenate([before["achieved_goal"]] * 3)
    desired = np.concatenate([before["achieved_goal"], after["achieved_goal"], before["desired_goal"]])
    for function, dtype in ((env.compute_reward, np.float32), (env.compute_terminated, bool)):
        batch = function(achieved, desired, {})
        singles = [function(a, d, {}) for a, d in zip(achieved, desired, strict=True)]
        assert (batch.shape, batch.dtype) == ((120,), dtype)
        assert {(np.shape(single), single.dtype) for single in singles} == {((), np.dtype(dtype))}
        np.testing.assert_array_equal(batch, singles)
        grid = [goals.reshape(12, 10, *goals.shape[1:]) for goals in (achieved, desired)]
        np.testing.assert_array_equal(function(*grid, {}), batch.reshape(12, 10))
        assert function(achieved[:0], desired[:0], {}).shape == (0,)

        tensors = [torch.from_numpy(goals) for goals in (achieved, desired)]
        # torch rounds square roots differently, so dense rewards may differ in the last bit
        np.testing.assert_allclose(function(*tensors, {}), batch, rtol=3e-7)
        assert function(*tensors, {}).numpy().dtype == dtype
        assert function(*(goals[0] for goals in tensors), {}).shape == ()
    rewards = env.compute_reward(achieved, desired, {})
    assert len(np.unique(rewards)) > 1, "the pairs must contain reached and missed goals"
    np.testing.assert_array_equal(rewards[:40], 0)
    assert not np.signbit(rewards[:40]).any()
