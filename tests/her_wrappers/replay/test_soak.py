"""Millions of transitions through a full buffer: memory stays constant, and all rows are correct."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.support.buffers import transitions
from tests.support.counting import assert_counting_rows, counting_buffer, counting_episode, counting_episodes
from tests.support.equality import assert_same_episodes

STATM = Path("/proc/self/statm")


def resident_bytes():
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not STATM.exists(), reason="the memory of a process is read as Linux tells it")
def test_ten_million_transitions_leave_memory_constant_and_rows_correct():
    rng, lengths, added, resident = np.random.default_rng(0), np.zeros(0, int), 0, []
    buffer = counting_buffer(buffer_size=500_000)
    for chapter in range(100):
        # mostly episodes of up to 100 steps; in two chapters of up to 2 steps, for which the memory grows
        longest = 2 if chapter % 50 == 10 else 100
        new = rng.integers(1, longest + 1, size=200_000 // (longest + 1))
        last = [counting_episode(len(lengths) + i, new[i]) for i in range(len(new) - 6, len(new))]
        buffer.add_episodes(counting_episodes(len(lengths), new[:-6]))
        lengths = np.append(lengths, new)
        for episode in last[:-1]:
            for values in transitions(episode):
                buffer.add(*values)
        buffer.add_episode(last[-1])
        added += int(new.sum())
        assert len(buffer) > min(added, 500_000) - 100
        for _ in range(10):
            assert_counting_rows(buffer.sample(1000), lambda number: lengths[number])  # noqa: B023
        if chapter > 65:
            resident.append(resident_bytes())
    buffer.verify()
    assert int(buffer.sample(100_000).index.max()) < added
    assert max(resident) - min(resident) < 0.2 * buffer.nbytes
    first = len(lengths) - len(new)
    many = [counting_episode(first + i, length) for i, length in enumerate(new)]
    assert_same_episodes(list(buffer.episodes())[-len(many) :], many)
