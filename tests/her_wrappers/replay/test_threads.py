"""Several threads add, sample, update and save at the same time: all rows and files are correct."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import pytest

from her_wrappers import Demonstrations, Mixture, Priority
from tests.support.buffers import filled, load_buffer, make_buffer
from tests.support.counting import assert_counting_rows, counting_episode
from tests.support.equality import assert_same_episodes

BUFFER_SIZE = 300


def length_of(number):
    return 1 + number % 40


def episode(number):
    return counting_episode(number, length_of(number), terminated=number % 3 == 0)


def explain(batch):
    """Assert that each row is correct; return the number of the first step of each episode."""
    first_steps, batch = assert_counting_rows(batch, length_of), batch.to_numpy()
    number, t = batch.observations["observation"].T.astype(int)
    last = t == length_of(number) - 1
    np.testing.assert_array_equal(batch.terminations, (batch.rewards == 0) | (last & (number % 3 == 0)))
    np.testing.assert_array_equal(batch.truncations, last & (number % 3 > 0))
    # all episodes of a batch were stored at the same time
    assert np.ptp(np.append(batch.index, batch.goal_index[batch.relabeled])) < BUFFER_SIZE
    return first_steps


def note(known, first_steps):
    """Add the first steps of episodes to the known ones, which they must equal."""
    for number, first in first_steps.items():
        assert known.setdefault(number, first) == first


def add(buffer, start, rounds):
    for number in range(start, start + 5 * rounds, 5):
        buffer.add_episodes([episode(each) for each in range(number, number + 4)])
        buffer.add_episode(episode(number + 4))


def sample(buffer, rounds):
    """Sample batches, check their rows, update their priorities; return the first step of each episode."""
    first_steps = {}
    for step in range(3 * rounds):
        batch = buffer.sample(32)
        note(first_steps, explain(batch))
        if step % 3 == 0:
            buffer.update_priorities(batch.index, np.arange(32) % 7)
    return first_steps


def save_and_load(buffer, path, rounds):
    """Save, load and check the buffer repeatedly; return the first steps of the loaded episodes."""
    first_steps = {}
    for _ in range(rounds // 4):
        buffer.save(path)
        twin = load_buffer(path, None)
        found = list(twin.episodes())
        assert_same_episodes(found, [episode(int(each.actions[0, 0])) for each in found])
        note(first_steps, explain(twin.sample(100)))
    return first_steps


@pytest.mark.parametrize("rounds", [20, pytest.param(300, marks=pytest.mark.slow)])
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
    found = [each.result() for each in (*sampling, saving)]
    for each in found[1:]:
        note(found[0], each)


@pytest.mark.parametrize("copied", [lambda each: each, lambda each: pickle.loads(pickle.dumps(each))])
def test_demonstrations_are_not_sampled_while_their_buffer_samples_from_them(copied, monkeypatch):
    demonstrations = Demonstrations([counting_episode(9, 5, terminated=True)])
    buffer = copied(filled(demonstrations=demonstrations))
    has_begun, may_end, replay = threading.Event(), threading.Event(), buffer._replay

    def sample_slowly(batch_size, beta):
        has_begun.set()
        may_end.wait(10)
        return type(replay).sample(replay, batch_size, beta)

    monkeypatch.setattr(replay, "sample", sample_slowly)
    with ThreadPoolExecutor(2) as threads:
        threads.submit(buffer.sample, 8)
        has_begun.wait(10)
        other = threads.submit(buffer.demonstrations.sample, 8)
        wait([other], timeout=0.05)
        is_done = other.done()
        may_end.set()
    assert not is_done
    assert len(other.result()) == 8
