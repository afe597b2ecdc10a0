"""Internals, `stored_episodes.py`: episodes are read and saved in blocks of any size."""

from __future__ import annotations

from her_wrappers.replay import stored_episodes
from tests.support.buffers import reloaded, wrapped
from tests.support.counting import (
    counting_buffer,
    counting_episode,
)
from tests.support.equality import assert_same_batches, assert_same_episodes


def test_episodes_may_be_added_and_evicted_during_iteration(monkeypatch):
    monkeypatch.setattr(stored_episodes, "BLOCK_BYTES", 1)
    monkeypatch.setattr(stored_episodes, "MAX_BLOCKS", 100)
    buffer = counting_buffer(buffer_size=20)
    for number in range(4):
        buffer.add_episode(counting_episode(number, 5))
    iterator = buffer.episodes()
    numbers = [int(next(iterator).actions[0, 0])]
    buffer.add_episodes([counting_episode(number, 5) for number in (4, 5)])
    numbers += [int(episode.actions[0, 0]) for episode in iterator]
    assert numbers == [0, 2, 3], "1 is evicted before it is read, 4 and 5 came later"
    iterator = buffer.episodes()
    next(iterator)
    buffer.clear()
    assert list(iterator) == []


def test_blocks_of_any_size_are_read_completely(tmp_path, monkeypatch):
    for part_bytes in (1, 300, 2000, 10**9):
        monkeypatch.setattr(stored_episodes, "BLOCK_BYTES", part_bytes)
        for most in (1, 3, 1000):
            monkeypatch.setattr(stored_episodes, "MAX_BLOCKS", most)
            buffer = wrapped()
            assert_same_episodes(buffer.episodes(), list(buffer.episodes()))
            assert_same_batches(buffer, reloaded(buffer, tmp_path / "buffer"), [100])
