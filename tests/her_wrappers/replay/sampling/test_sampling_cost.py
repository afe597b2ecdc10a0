"""The cost of sampling does not depend on the size of the buffer."""

from __future__ import annotations

import time

from tests.support.counting import counting_buffer, counting_episode


def seconds_of_a_batch(buffer):
    """Return the shortest CPU time of 200 samples of a batch, in seconds."""
    best = float("inf")
    for _ in range(200):
        start = time.thread_time()
        buffer.sample(64)
        best = min(best, time.thread_time() - start)
    return best


def test_sampling_costs_no_more_in_a_larger_buffer():
    """Scanning ten million flags would take many times as long as sampling a batch."""
    costs = []
    for buffer_size in (1000, 10_000_000):
        buffer = counting_buffer(buffer_size=buffer_size)
        for number in range(20):
            buffer.add_episode(counting_episode(number, 50))
        costs.append(seconds_of_a_batch(buffer))
    assert costs[1] < 3 * costs[0]
