"""Internals, `episode_index.py`: serial numbers of segments above 2^31."""

from __future__ import annotations

from her_wrappers.replay.episode_index import EvictionPoint
from tests.support.buffers import plain_buffer
from tests.support.counting import counting_episode


def test_steps_find_their_segments_with_numbers_above_the_largest_32_bit_integer():
    buffer = plain_buffer(100)
    layout, storage = buffer._storage.memory.layout, buffer._storage
    storage.memory = storage._empty_memory(layout, EvictionPoint(0, 0, 2**31 - 70))
    for number in range(200):
        buffer.add_episode(counting_episode(number, 1 + number % 3))
        buffer.verify()
    assert [episode.observations["observation"][0, 0] for episode in buffer.episodes()][-1] == 199
