"""Internals, `relabeling/rewards.py`: the values of rewards that successes are found by."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers.replay.relabeling.rewards import GoalRewards
from tests.support.buffers import reloaded, wrapped
from tests.support.counting import (
    compute_reward,
    counting_buffer,
    counting_episode,
)


@pytest.mark.arrays_only("of tensors nobody looks at the values of rewards")
def test_the_rewards_that_success_goes_by_come_back(tmp_path):
    """The values are known from before: rewards of another scale are refused."""
    buffer = wrapped(termination="success")
    twin = reloaded(buffer, tmp_path / "buffer")
    twin._parts.relabeling._rewards = GoalRewards(lambda a, d, i: 10 + compute_reward(a, d, i))
    with pytest.raises(ValueError, match=r"needs rewards of two values.*got -1, 0, 9"):
        twin.sample(100)


def test_clear_forgets_what_was_learned():
    buffer = counting_buffer(termination="success")
    buffer.add_episode(counting_episode(0, 3))
    buffer.clear()
    buffer._parts.relabeling._rewards = GoalRewards(lambda a, d, i: 10 + compute_reward(a, d, i))
    buffer.add_episode(counting_episode(0, 3, rewards=np.full(3, 9.0)))
    assert set(buffer.sample(100).rewards) == {9, 10}
