"""Memory needed for saving and loading."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers import HindsightReplayBuffer
from tests.support.buffers import FUNCTIONS
from tests.support.counting import (
    ACTIONS,
    SPACE,
    counting_episode,
)


@pytest.fixture
def peak():
    """Return a function that returns the peak of allocated bytes since its last call."""
    tracemalloc.start()

    def read():
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        return most

    yield read
    tracemalloc.stop()


def test_saving_and_loading_take_little_additional_memory(tmp_path, peak):
    space = spaces.Dict(
        observation=spaces.Box(-1, 1, (200,), np.float64),
        achieved_goal=SPACE["achieved_goal"],
        desired_goal=SPACE["desired_goal"],
    )
    buffer = HindsightReplayBuffer(space, ACTIONS, buffer_size=100_000, **FUNCTIONS)
    episodes = [
        counting_episode(
            n, 50, observations=counting_episode(n, 50).observations | {"observation": np.zeros((51, 200))}
        )
        for n in range(100)
    ]
    for _ in range(21):
        buffer.add_episodes(episodes)
    held = tracemalloc.get_traced_memory()[0]
    peak()
    buffer.save(tmp_path / "buffer")
    assert peak() < held + buffer.nbytes / 3
    assert (tmp_path / "buffer").stat().st_size > 0.9 * buffer.nbytes
    for _ in buffer.episodes():
        pass
    assert peak() < held + buffer.nbytes / 3
    nbytes = buffer.nbytes
    del buffer
    held = tracemalloc.get_traced_memory()[0]
    twin = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS)
    assert peak() < held + 4 / 3 * nbytes
    assert len(twin) == 100_000
