"""HindsightReplayBuffer as a whole: capacity, memory, copies, seeds, environments."""

from __future__ import annotations

import copy
import pickle
import threading

import gymnasium as gym
import numpy as np
import pytest
import torch

import her_envs
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer
from tests.support.buffers import arrays_of, filled
from tests.support.counting import ACTIONS, SPACE, counting_buffer, counting_episode


def test_an_episode_as_long_as_the_buffer_fits_and_can_be_sampled():
    buffer = counting_buffer(buffer_size=10)
    for number in range(3):
        buffer.add_episode(counting_episode(number, 10))
        assert set(buffer.sample(500).observations["observation"][:, 1]) == set(range(10))


def test_a_longer_episode_is_an_error_and_nothing_is_evicted():
    buffer = filled(buffer_size=12)
    with pytest.raises(
        ValueError, match="must fit the buffer of 12 transitions, got 13 steps; raise buffer_size"
    ):
        buffer.add_episode(counting_episode(9, 13))
    assert (len(buffer), buffer.num_episodes) == (12, 3)


def test_one_step_episodes_fill_the_buffer_to_its_size():
    buffer = counting_buffer(buffer_size=1000)
    for number in range(2500):
        buffer.add_episode(counting_episode(number, 1))
    assert len(buffer) == 1000
    batch = buffer.sample(20_000)
    assert set(batch.observations["observation"][:, 0]) == set(range(1500, 2500))


def test_no_state_is_stored_twice():
    buffer = counting_buffer(buffer_size=10_000)
    per_state = 2 * 2 * 8 + 8 + 4 + 2 * 4  # observation and achieved goal, action, reward, two integers
    assert buffer.nbytes / 10_000 < 1.1 * per_state + 5


def test_clear_removes_everything():
    buffer = filled()
    buffer.clear()
    assert len(buffer) == buffer.num_episodes == 0
    assert not buffer.can_sample
    buffer.add_episode(counting_episode(0, 2))
    assert set(buffer.sample(50).index) == {12, 13}, "no number is given twice"


def test_a_batch_shares_memory_neither_with_the_buffer_nor_within_itself():
    buffer = filled()
    twin = copy.deepcopy(buffer)
    batch = buffer.sample(64)
    kept = [array.copy() for array in arrays_of(batch)]
    arrays = arrays_of(batch)
    for i, array in enumerate(arrays):
        for other in arrays[:i]:
            assert not np.shares_memory(array, other)
    for array in arrays:
        array[...] = 0
    for array, before in zip(arrays_of(twin.sample(64)), kept, strict=True):
        np.testing.assert_array_equal(array, before)
    for array, other in zip(arrays_of(twin.sample(64)), arrays_of(buffer.sample(64)), strict=True):
        np.testing.assert_array_equal(array, other)


def test_an_episode_is_copied_when_it_is_added():
    buffer, episode = counting_buffer(), counting_episode(3, 5)
    buffer.add_episode(episode)
    for array in (*episode.observations.values(), episode.actions, episode.rewards):
        array[...] = 99
    assert set(buffer.sample(100).observations["observation"][:, 0]) == {3}


def test_a_batch_becomes_torch_tensors_of_the_same_values_and_memory():
    batch = filled().sample(32)
    tensors = batch.to_torch()
    for array, tensor in zip(arrays_of(batch), arrays_of(tensors), strict=True):
        assert isinstance(tensor, torch.Tensor)
        np.testing.assert_array_equal(array, tensor.numpy())
        assert tensor.data_ptr() == array.ctypes.data
    assert tensors.rewards.dtype == torch.float32
    assert tensors.terminations.dtype == torch.bool
    assert len(tensors) == 32
    torch.nn.Linear(2, 3, dtype=torch.float64)(tensors.observations["observation"])


def test_a_plain_replay_buffer_needs_no_functions():
    buffer = HindsightReplayBuffer(SPACE, ACTIONS, n_sampled_goal=0)
    episode = counting_episode(0, 5, terminated=True, rewards=np.arange(5.0))
    buffer.add_episode(episode)
    batch = buffer.sample(100)
    assert not batch.relabeled.any()
    np.testing.assert_array_equal(batch.rewards, batch.observations["observation"][:, 1])
    np.testing.assert_array_equal(batch.terminations, batch.rewards == 4)


def test_statistics_describe_and_change_nothing():
    buffer, twin = filled(), filled()
    stats = buffer.statistics(20_000)
    assert (stats.num_transitions, stats.num_episodes, stats.mean_length) == (12, 3, 4)
    assert stats.nbytes == buffer.nbytes
    assert stats.relabeled_share == pytest.approx(0.8, abs=1e-3)
    assert stats.original_reward == -1
    assert stats.terminated_share == pytest.approx(1 + stats.relabeled_reward, abs=1e-6)
    steps_left = [left for length in (4, 1, 7) for left in range(length)]
    assert stats.mean_ahead == pytest.approx(np.mean(steps_left) / 2, abs=0.05)
    np.testing.assert_array_equal(buffer.sample(20).index, twin.sample(20).index)
    assert np.isnan(filled(n_sampled_goal=0).statistics().relabeled_reward)


def test_copies_and_pickles_sample_alike():
    buffer = filled()
    for twin in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        batch, other = copy.deepcopy(buffer).sample(30), twin.sample(30)
        for one, two in zip(arrays_of(batch), arrays_of(other), strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("length", [1, 7])  # episodes of one step make the rings grow
def test_a_pickle_has_the_stored_rows_only_and_continues_with_the_same_batches(length):
    buffer = filled(buffer_size=150)
    for number in range(3, 200):
        buffer.add_episode(counting_episode(number, length))
    twin = pickle.loads(pickle.dumps(buffer))
    for number in range(200, 300):
        twin.verify()
        for each in (buffer, twin):
            each.add_episode(counting_episode(number, 1 + number % 5))
        batch, other = buffer.sample(30), twin.sample(30)
        for one, two in zip(arrays_of(batch), arrays_of(other), strict=True):
            np.testing.assert_array_equal(one, two)
    assert twin.nbytes == buffer.nbytes
    large = filled(buffer_size=10**6)
    assert len(pickle.dumps(large)) < 40_000 < large.nbytes


def test_equal_seeds_give_equal_batches_and_the_global_generator_is_left_alone():
    np.random.seed(0)  # noqa: NPY002 - to see that it is not used
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second, other = filled(seed=5), filled(seed=5), filled(seed=6)
    for _ in range(5):
        one, two, three = (buffer.sample(50) for buffer in (first, second, other))
        for a, b in zip(arrays_of(one), arrays_of(two), strict=True):
            np.testing.assert_array_equal(a, b)
        assert not np.array_equal(one.index, three.index)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_threads_may_add_and_sample_together():
    buffer, errors = counting_buffer(buffer_size=300), []
    buffer.add_episode(counting_episode(0, 5))

    def add(start):
        for number in range(start, start + 300):
            buffer.add_episode(counting_episode(number, 1 + number % 40))

    def sample():
        for _ in range(300):
            batch = buffer.sample(64)
            if not (
                batch.next_observations["observation"][:, 1] == batch.observations["observation"][:, 1] + 1
            ).all():
                errors.append(batch)

    threads = [threading.Thread(target=add, args=(1000 * i,)) for i in (1, 2)]
    threads += [threading.Thread(target=sample) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.parametrize("env_id", her_envs.registration.ENTRY_POINTS)
def test_bundled_environments_record_relabel_and_agree_with_their_own_functions(env_id):
    env = gym.make(env_id)
    buffer = HindsightReplayBuffer.for_env(env, buffer_size=500, seed=0)
    recorder = EpisodeRecorder(env, buffer.add_episode)
    recorder.action_space.seed(0)
    recorder.reset(seed=0)
    for _ in range(700):
        _, _, terminated, truncated, _ = recorder.step(recorder.action_space.sample())
        if terminated or truncated:
            recorder.reset()
    batch = buffer.sample(1000)
    goals = batch.next_observations["achieved_goal"], batch.next_observations["desired_goal"]
    np.testing.assert_array_equal(batch.rewards, env.unwrapped.compute_reward(*goals, {}))
    np.testing.assert_array_equal(batch.terminations, env.unwrapped.compute_terminated(*goals, {}))
    assert (batch.rewards[batch.relabeled] == 0).any()


def test_the_environment_is_never_copied():
    """Copying a simulator may fail, or disconnect the original."""

    class Simulator(her_envs.TaskEnv):
        def __deepcopy__(self, memo):
            raise AssertionError

    buffer = HindsightReplayBuffer.for_env(Simulator(her_envs.PointReach()))
    buffer.clear()


def test_a_vector_environment_gives_the_spaces_of_one():
    env = gym.make_vec("her_envs/PointReach-v0", num_envs=3, vectorization_mode="sync")
    buffer = HindsightReplayBuffer.for_env(env)
    episode_space = gym.make("her_envs/PointReach-v0").observation_space
    assert buffer.observation_space == episode_space


def test_a_batch_that_does_not_fit_in_memory_leaves_the_buffer_usable():
    buffer = counting_buffer()
    buffer.add_episode(counting_episode(0, 5))
    with pytest.raises((MemoryError, ValueError), match=r".{10}"):
        buffer.sample(10**13)
    assert len(buffer.sample(10)) == 10
    np.testing.assert_array_equal(np.unique(buffer.sample(1000).index), np.arange(5))
