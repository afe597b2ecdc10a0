"""Iterating over the episodes of a buffer."""

from __future__ import annotations

from her_wrappers.trees import leaf_arrays
from tests.support.buffers import wrapped
from tests.support.counting import (
    counting_buffer,
    counting_episode,
)
from tests.support.equality import assert_same_episodes


def test_a_buffer_filled_with_the_episodes_of_another_equals_it():
    for options in ({}, {"buffer_size": 1000}, {"n_sampled_goal": 0}):
        buffer, copy = wrapped(**options), counting_buffer(**options)
        copy.extend(buffer.episodes())
        assert_same_episodes(buffer.episodes(), copy.episodes())
        assert (len(copy), copy.num_episodes) == (len(buffer), buffer.num_episodes)


def test_iteration_returns_copies_of_the_episodes_as_added():
    added = [
        counting_episode(number, length, terminated=number == 2) for number, length in enumerate([4, 1, 7])
    ]
    buffer = counting_buffer()
    buffer.add_episodes(added)
    for _ in range(2):
        found = list(buffer.episodes())
        assert_same_episodes(found, added)
        arrays = [leaf for e in found for leaf in leaf_arrays((e.observations, e.actions, e.rewards))]
        assert all(array.base is None for array in arrays)
        for array in arrays:
            array[...] = 99
