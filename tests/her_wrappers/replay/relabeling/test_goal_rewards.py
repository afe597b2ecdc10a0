"""The reward of an achieved goal, by which ``termination="success"`` finds successes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from her_wrappers.replay.rewards import RewardFunction
from tests.support.buffers import reloaded, wrapped
from tests.support.counting import (
    compute_reward,
    counting_buffer,
    counting_episode,
)


def pay_ten_more(buffer):
    """Replace the reward function by one whose rewards are larger by 10."""
    reward = RewardFunction("compute_reward", lambda a, d, i: 10 + compute_reward(a, d, i))
    buffer._relabeler = replace(buffer._relabeler, reward=reward)


@pytest.mark.arrays_only("the values of tensors are not checked")
def test_the_reward_of_an_achieved_goal_is_saved_with_the_buffer(tmp_path):
    """The loaded buffer knows both values of the sparse reward, so a third value is an error."""
    buffer = wrapped(termination="success")
    twin = reloaded(buffer, tmp_path / "buffer")
    pay_ten_more(twin)
    with pytest.raises(ValueError, match=r"needs rewards of two values.*got -1, 0, 9"):
        twin.sample(100)


def test_clear_resets_the_reward_of_an_achieved_goal():
    buffer = counting_buffer(termination="success")
    buffer.add_episode(counting_episode(0, 3))
    buffer.clear()
    pay_ten_more(buffer)
    buffer.add_episode(counting_episode(0, 3, rewards=np.full(3, 9.0)))
    assert set(buffer.sample(100).rewards) == {9, 10}


@pytest.mark.arrays_only("the function does not take tensors")
def test_nothing_found_in_a_rejected_episode_is_kept():
    values, num_calls = [1.0, 0.0], 0

    def reward(achieved, desired, info):
        nonlocal num_calls
        num_calls += 1
        if num_calls == 3:  # the rule finds its rewards by the first two calls
            raise RuntimeError("at the third call")
        return np.where((achieved == desired).all(-1), *values)

    buffer = counting_buffer(termination="success", compute_reward=reward)
    before = buffer._relabeler
    with pytest.raises(RuntimeError, match="at the third call"):
        buffer.add_episode(counting_episode(0, 3, rewards=np.zeros(3)))
    assert num_calls == 3
    assert buffer._relabeler is before
    values[:] = 0.0, -1.0
    buffer.add_episode(counting_episode(0, 3))
    assert set(buffer.sample(100).rewards) == {0, -1}


def with_one_output_array():
    """Return a reward function that returns the same array at every call."""
    output = np.zeros(1000, np.float32)

    def reward(achieved, desired, info):
        rewards = output[: len(achieved)]
        rewards[:] = compute_reward(achieved, desired, info)
        return rewards

    return reward


@pytest.mark.arrays_only("the function does not take tensors")
@pytest.mark.parametrize("termination", ["success", None])
def test_a_function_may_return_the_same_array_at_every_call(termination):
    crash = counting_episode(0, 5, terminated=True)
    batches = []
    for function in (compute_reward, with_one_output_array()):
        buffer = counting_buffer(
            termination=termination, compute_reward=function, compute_terminated=None, her_ratio=1.0
        )
        buffer.add_episode(crash)  # a warning that it reached its goal would be an error here
        batches.append(buffer.sample(200))
    np.testing.assert_array_equal(batches[0].rewards, batches[1].rewards)
    np.testing.assert_array_equal(batches[0].terminations, batches[1].terminations)
