"""Priorities are saved and loaded."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers import HindsightReplayBuffer, Priority
from tests.support.buffers import FUNCTIONS
from tests.support.counting import counting_episode
from tests.support.equality import assert_same_batches
from tests.support.prioritized import prioritized_buffer


@pytest.mark.parametrize("sampled", [[], [16], [16] * 6, [300, 300]])
def test_a_loaded_buffer_continues_with_the_same_batches(tmp_path, sampled):
    buffer = prioritized_buffer([9, 30, 25, 30, 40, 1], resample_achieved_goals=True)
    for size in sampled:
        batch = buffer.sample(size)
    if sampled:
        buffer.update_priorities(batch.index, np.abs(batch.rewards) * np.arange(sampled[-1]))
        buffer.sample(16)
    buffer.save(tmp_path / "buffer")
    twin = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS)
    twin.verify()
    for number in range(30):
        assert_same_batches(buffer, twin, [16])
        batch = buffer.sample(16)
        np.testing.assert_array_equal(twin.sample(16).weights, batch.weights)
        for each in (buffer, twin):
            each.update_priorities(batch.index, np.arange(16) / (1 + number))
            if number % 3 == 0:
                each.add_episode(counting_episode(number, 1 + number))


@pytest.mark.parametrize("eps", [1e-6, 0.01, 0.3])
def test_the_smallest_and_the_largest_priority_are_restored_with_any_alpha(tmp_path, eps):
    """NumPy's powers of scalars and of arrays may differ in the last bit; files may have either result."""
    for alpha in np.linspace(0, 1, 21):
        buffer = prioritized_buffer([30], buffer_size=30, priority=Priority(alpha=alpha, eps=eps))
        buffer.update_priorities(np.arange(30), np.repeat([0.0, 7.3, 1e12], 10))
        buffer.save(tmp_path / "buffer")
        twin = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS)
        assert_same_batches(buffer, twin, [16] * 3)
