"""Several threads add, sample, update and save at the same time: all rows and files are correct."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from her_wrappers import Mixture, Priority
from tests.support.buffers import load_buffer, make_buffer
from tests.support.counting import counting_episode
from tests.support.equality import assert_same_episodes

BUFFER_SIZE = 300


def length_of(number):
    return 1 + number % 40


def terminates(number):
    return number % 3 == 0


def episode(number):
    return counting_episode(number, length_of(number), terminated=terminates(number))


def explain(batch, first_index):
    """Assert that each row is correct; ``first_index`` collects the number of the first step of each episode.

    The episodes that were stored when the batch was sampled are not known.
    """
    batch = batch.to_numpy()
    number, t = batch.observations["observation"].T.astype(int)
    lengths = length_of(number)
    np.testing.assert_array_equal(batch.next_observations["observation"].T, [number, t + 1])
    np.testing.assert_array_equal(batch.actions[:, 0], number + t / 1000)
    source, s = batch.observations["desired_goal"].T.astype(int)
    reached, last = (source == number) & (s == t + 1), t == lengths - 1
    np.testing.assert_array_equal(batch.rewards, reached - 1.0)
    np.testing.assert_array_equal(batch.terminations, reached | (last & terminates(number)))
    np.testing.assert_array_equal(batch.truncations, last & ~terminates(number))
    random, ours = batch.strategy == "random", batch.strategy == "future"
    assert ((s >= 1) & (s <= length_of(source)))[random].all()
    assert ((source == number) & (s > t) & (s <= lengths))[ours].all()
    np.testing.assert_array_equal(batch.observations["desired_goal"][~batch.relabeled, 1], -1)
    # each episode has one first step, and all episodes of a batch were stored at the same time
    places = zip(number, batch.index - t, strict=True)
    goals = zip(source[batch.relabeled], (batch.goal_index - s + 1)[batch.relabeled], strict=True)
    for each, first in (*places, *goals):
        assert first_index.setdefault(int(each), int(first)) == first
    assert np.ptp(np.append(batch.index, batch.goal_index[batch.relabeled])) < BUFFER_SIZE


def add(buffer, start, rounds):
    for number in range(start, start + 5 * rounds, 5):
        buffer.add_episodes([episode(each) for each in range(number, number + 4)])
        buffer.add_episode(episode(number + 4))


def sample(buffer, rounds):
    """Sample batches, check their rows, update their priorities; return the first step of each episode."""
    first_index = {}
    for step in range(3 * rounds):
        batch = buffer.sample(32)
        explain(batch, first_index)
        if step % 3 == 0:
            buffer.update_priorities(batch.index, np.arange(32) % 7)
    return first_index


def save_and_load(buffer, path, rounds):
    """Save, load and check the buffer repeatedly; return the first steps of the loaded episodes."""
    first_index = {}
    for _ in range(rounds // 4):
        buffer.save(path)
        twin = load_buffer(path, None)
        twin.verify()
        found = list(twin.episodes())
        assert_same_episodes(found, [episode(int(each.actions[0, 0])) for each in found])
        explain(twin.sample(100), first_index)
    return first_index


@pytest.mark.parametrize("rounds", [60, pytest.param(600, marks=pytest.mark.slow)])
def test_threads_that_add_sample_update_and_save_get_correct_rows_and_files(tmp_path, device, rounds):
    mixture = Mixture({"future": 0.5, "random": 0.25, "original": 0.25})
    options = {"buffer_size": BUFFER_SIZE, "goal_selection_strategy": mixture, "prioritized": Priority()}
    buffer = make_buffer(device, **options)
    buffer.add_episode(episode(0))
    with ThreadPoolExecutor(5) as threads:
        adding = [threads.submit(add, buffer, start, rounds) for start in (10**5, 10**6)]
        sampling = [threads.submit(sample, buffer, rounds) for _ in range(2)]
        saving = threads.submit(save_and_load, buffer, tmp_path / "buffer", rounds)
    for each in adding:
        each.result()
    buffer.verify()
    found = [each.result() for each in (*sampling, saving)]
    for one, other in itertools.combinations(found, 2):
        assert all(other[number] == one[number] for number in one.keys() & other.keys())
