"""Internals, `torch_backend.py`: long episodes are copied to a device in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers.replay import storage
from tests.support.counting import (
    counting_episode,
)
from tests.support.tensors import cpu_buffer

pytestmark = pytest.mark.arrays_only("devices are given in each test")


def test_long_episodes_are_copied_to_a_device_in_blocks(monkeypatch):
    """Blocks of five records, some of which wrap around the end of the ring."""
    expected = cpu_buffer(buffer_size=60, device=None)
    monkeypatch.setattr(storage, "BLOCK_BYTES", 250)
    buffer = cpu_buffer(buffer_size=60)
    for number, length in enumerate([25, 40, 60, 7]):
        for each in (buffer, expected):
            each.add_episode(counting_episode(number, length))
        for one, other in zip(buffer.episodes(), expected.episodes(), strict=True):
            np.testing.assert_array_equal(one.observations["observation"], other.observations["observation"])
            np.testing.assert_array_equal(one.actions, other.actions)
