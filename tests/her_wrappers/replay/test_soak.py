"""Millions of transitions through a full buffer: memory stays constant, and all rows are correct."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from her_wrappers import Episodes
from tests.support.buffers import transitions
from tests.support.counting import counting_buffer
from tests.support.equality import assert_same_episodes

STATM = Path("/proc/self/statm")


def resident_bytes():
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def many_episodes(first, lengths, rng):
    """Return counting episodes as `Episodes`; the desired goal changes within some of them."""
    states = lengths + 1
    numbers = np.repeat(np.arange(first, first + len(lengths)), states).astype(float)
    t = np.arange(len(numbers)) - np.repeat(np.cumsum(states) - states, states)
    counts = np.stack([numbers, t], axis=1)
    is_step = np.ones(len(numbers), np.bool_)
    is_step[np.cumsum(states) - 1] = False
    desired = np.stack([numbers, -1.0 - (t > 30) * (numbers % 7 == 0)], axis=1)
    terminated = rng.random(len(lengths)) < 0.5
    return Episodes(
        observations={"observation": counts, "achieved_goal": counts.copy(), "desired_goal": desired},
        actions=counts[is_step, :1] + counts[is_step, 1:] / 1000,
        rewards=np.full(lengths.sum(), -1.0),
        lengths=lengths,
        terminated=terminated,
        truncated=~terminated,
    )


def assert_own_rows(batch):
    """Assert that rows have the values of their step, and relabeled rows a goal achieved later."""
    number, t = batch.observations["observation"].T
    np.testing.assert_array_equal(batch.next_observations["observation"].T, [number, t + 1])
    np.testing.assert_array_equal(batch.actions[:, 0], number + t / 1000)
    source, s = batch.observations["desired_goal"].T
    np.testing.assert_array_equal(source, number)
    ahead = (batch.goal_index - batch.index)[batch.relabeled]
    np.testing.assert_array_equal((s - t)[batch.relabeled], ahead + 1)
    assert (ahead >= 0).all()


@pytest.mark.slow
@pytest.mark.skipif(not STATM.exists(), reason="the memory of a process is read as Linux tells it")
def test_ten_million_transitions_leave_memory_constant_and_rows_correct():
    rng, number, added, resident = np.random.default_rng(0), 0, 0, []
    buffer = counting_buffer(buffer_size=500_000)
    for chapter in range(100):
        # mostly episodes of up to 100 steps; in two chapters of up to 2 steps, for which the memory grows
        longest = 2 if chapter % 50 == 10 else 100
        episodes = many_episodes(number, rng.integers(1, longest + 1, size=200_000 // (longest + 1)), rng)
        number += len(episodes)
        buffer.add_episodes(episodes)
        for episode in episodes[:5]:
            for values in transitions(episode):
                buffer.add(*values)
        buffer.add_episode(episodes[-1])
        added += len(episodes.rewards) + int(episodes.lengths[:5].sum()) + int(episodes.lengths[-1])
        assert len(buffer) > min(added, 500_000) - 100
        for _ in range(10):
            assert_own_rows(buffer.sample(1000))
        if chapter > 65:
            resident.append(resident_bytes())
    buffer.verify()
    assert int(buffer.sample(100_000).index.max()) < added
    assert max(resident) - min(resident) < 0.2 * buffer.nbytes
    newest = [episodes[-1], *episodes[:5], episodes[-1]]
    assert_same_episodes(list(buffer.episodes())[-len(newest) :], newest)
