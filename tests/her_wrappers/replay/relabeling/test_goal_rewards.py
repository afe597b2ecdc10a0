"""Internals, `relabeling.py`: the values of rewards that successes are found by."""

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
    """Replace the reward function by one with other values."""
    reward = RewardFunction("compute_reward", lambda a, d, i: 10 + compute_reward(a, d, i))
    buffer._relabeler = replace(buffer._relabeler, reward=reward)


@pytest.mark.arrays_only("of tensors nobody looks at the values of rewards")
def test_the_rewards_that_success_goes_by_come_back(tmp_path):
    """The values are known from before: rewards of another scale are an error."""
    buffer = wrapped(termination="success")
    twin = reloaded(buffer, tmp_path / "buffer")
    pay_ten_more(twin)
    with pytest.raises(ValueError, match=r"needs rewards of two values.*got -1, 0, 9"):
        twin.sample(100)


def test_clear_forgets_what_was_learned():
    buffer = counting_buffer(termination="success")
    buffer.add_episode(counting_episode(0, 3))
    buffer.clear()
    pay_ten_more(buffer)
    buffer.add_episode(counting_episode(0, 3, rewards=np.full(3, 9.0)))
    assert set(buffer.sample(100).rewards) == {9, 10}
