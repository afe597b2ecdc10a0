"""Sampling by priorities: frequencies, weights, and updates in a training loop."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy import stats

from her_wrappers import Mixture, Priority
from tests.support.counting import compute_reward, compute_terminated, counting_buffer, counting_episode
from tests.support.equality import assert_same_batches
from tests.support.prioritized import assert_proportional, count_samples, prioritized_buffer

FUNCTIONS = {"compute_reward": compute_reward, "compute_terminated": compute_terminated}


# --- frequencies ----------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0, 0.3, 0.6, 1])
def test_transitions_are_sampled_in_proportion_to_priority_to_the_power_of_alpha(alpha):
    buffer = prioritized_buffer([5, 1, 30, 7, 20, 30, 25], priority=Priority(alpha=alpha, eps=1e-3))
    numbers = np.arange(13 + 23, 118)
    priorities = np.random.default_rng(0).exponential(size=len(numbers))
    buffer.update_priorities(numbers, priorities)
    odds = dict(zip(numbers.tolist(), (priorities + 1e-3) ** alpha, strict=True))
    assert_proportional(count_samples(buffer), odds)


def test_rows_of_a_batch_are_sampled_independently():
    """Pairs of rows have the frequencies of independent samples, which stratified sampling would not give."""
    buffer = prioritized_buffer([4], priority=Priority(alpha=1))
    buffer.update_priorities(range(4), [1, 2, 3, 4])
    pairs = Counter()
    for _ in range(3000):
        index = buffer.sample(2).index
        pairs[4 * int(index[0]) + int(index[1])] += 1
        buffer.update_priorities([0], [1])  # otherwise the next batches would be prefetched
    odds = np.outer([1, 2, 3, 4], [1, 2, 3, 4]).ravel()
    assert_proportional(pairs, dict(enumerate(odds.tolist())))


def test_updated_priorities_apply_to_the_next_batch():
    """Batches that were prefetched with the old priorities are dropped."""
    buffer = prioritized_buffer([20, 20], priority=Priority(alpha=1))
    for number in (3, 30, 11):
        for _ in range(5):
            buffer.sample(8)
        buffer.update_priorities(np.arange(40), np.where(np.arange(40) == number, 1e12, 0))
        assert (buffer.sample(8).index == number).all()


def test_evicted_transitions_are_never_sampled_and_new_ones_get_the_largest_priority():
    buffer = prioritized_buffer([60, 40], priority=Priority(alpha=1))
    buffer.update_priorities(np.arange(100), np.r_[np.full(60, 1e6), np.full(20, 0.0), np.full(20, 5.0)])
    buffer.add_episode(counting_episode(2, 50))
    assert_proportional(
        count_samples(buffer),
        dict(enumerate([1e-6] * 20 + [5] * 20 + [1e6] * 50, start=60)),
    )


def test_new_transitions_have_priority_1_before_any_larger_one_is_given():
    buffer = prioritized_buffer([3], priority=Priority(alpha=1, eps=1e-6))
    buffer.update_priorities([0, 1, 2], [0.25, 0.5, 0.25])
    buffer.add_episode(counting_episode(1, 1))
    assert_proportional(count_samples(buffer), {0: 0.25, 1: 0.5, 2: 0.25, 3: 1.0})


@pytest.mark.parametrize("ratio", [1e12, 1e24])
def test_priorities_may_differ_by_any_ratio(ratio):
    low, high = ratio**-0.5, ratio**0.5
    buffer = prioritized_buffer([50, 50], priority=Priority(alpha=1, eps=1e-30))
    buffer.update_priorities(np.arange(100), np.where(np.arange(100) % 10 == 7, high, low))
    assert_proportional(count_samples(buffer), dict.fromkeys(range(7, 100, 10), 1.0))


def test_priorities_of_0_leave_all_as_likely_as_each_other():
    buffer = prioritized_buffer([50, 50])
    buffer.update_priorities(np.arange(100), np.zeros(100))
    assert_proportional(count_samples(buffer), dict.fromkeys(range(100), 1.0))
    np.testing.assert_array_equal(buffer.sample(100).weights, 1)


def test_a_single_transition_is_sampled_with_weight_1():
    buffer = prioritized_buffer([1], buffer_size=1)
    for number in range(5):
        batch = buffer.sample(3)
        assert batch.index.tolist() == [number] * 3
        assert batch.weights.tolist() == [1] * 3
        buffer.update_priorities(batch.index, [0, 10.0**-number, 0])
        buffer.add_episode(counting_episode(number, 1))


@pytest.mark.parametrize("priorities", [None, [1, 100]])
def test_which_rows_are_relabeled_depends_on_neither_index_nor_priority(priorities):
    """A chi-square test finds no dependence between serial numbers and the components of a mixture."""
    buffer = prioritized_buffer(
        [4, 4], goal_selection_strategy=Mixture({"future": 0.4, "random": 0.3, "original": 0.3})
    )
    if priorities is not None:
        buffer.update_priorities(range(8), priorities * 4)
    table = np.zeros((8, 3))
    for _ in range(1500):
        batch = buffer.sample(13)
        np.add.at(table, (batch.index, np.searchsorted(["future", "original", "random"], batch.strategy)), 1)
        buffer.update_priorities([], [])
    assert stats.chi2_contingency(table).pvalue > 1e-5


def test_random_goals_stay_uniform_with_priorities():
    buffer = prioritized_buffer(
        [10, 10], goal_selection_strategy="random", n_sampled_goal=None, her_ratio=1.0
    )
    buffer.update_priorities(np.arange(20), np.where(np.arange(20) == 7, 1e6, 0))
    goals = Counter()
    for _ in range(40):
        goals.update(buffer.sample(500).goal_index.tolist())
    assert_proportional(goals, dict.fromkeys(range(20), 1.0))


# --- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0, 0.4, 1])
@pytest.mark.parametrize("by", ["the option", "sample"])
def test_weights_correct_for_probabilities_to_the_power_of_beta(beta, by):
    buffer = prioritized_buffer(
        [30, 30], priority=Priority(alpha=0.7, beta=beta if by == "the option" else 0.9)
    )
    priorities = np.random.default_rng(0).exponential(size=60)
    buffer.update_priorities(np.arange(60), priorities)
    odds = (priorities + 1e-6) ** 0.7
    for _ in range(5):
        batch = buffer.sample(16) if by == "the option" else buffer.sample(16, beta=beta)
        weights = (60 * odds[batch.index] / odds.sum()) ** -beta
        assert batch.weights.dtype == np.float32
        np.testing.assert_allclose(batch.weights, weights / weights.max(), rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"prioritized": Priority(alpha=0)}])
def test_weights_are_ones_if_sampling_is_uniform(options):
    buffer = counting_buffer(**options)
    buffer.add_episode(counting_episode(0, 9))
    batch = buffer.sample(50)
    assert batch.weights.dtype == np.float32
    assert batch.weights.tolist() == [1] * 50
    assert batch.to_torch().weights.tolist() == [1] * 50


def test_a_reward_function_of_batches_gets_weights_too():
    seen = []

    def reward_fn(batch):
        seen.append(batch.weights)
        return np.full(len(batch), -1.0)

    buffer = counting_buffer(compute_reward=None, reward_fn=reward_fn, termination="never")
    buffer.add_episode(counting_episode(0, 5))
    buffer.sample(10)
    assert all((weights == 1).all() and str(weights.dtype).endswith("float32") for weights in seen)


# --- seeds, memory, threads -----------------------------------------------------------------------


def test_equal_seeds_give_equal_batches_despite_statistics_in_between():
    buffers = [prioritized_buffer([30, 50], seed=3) for _ in range(2)]
    for step in range(20):
        batches = [buffer.sample(16, beta=step / 20) for buffer in buffers]
        np.testing.assert_array_equal(*(batch.index for batch in batches))
        np.testing.assert_array_equal(*(batch.weights for batch in batches))
        for buffer in buffers:
            buffer.update_priorities(batches[0].index, np.arange(16) % 5)
        buffers[0].statistics()
        buffers[0].verify()
        if step == 10:
            buffers[0] = copy.deepcopy(buffers[0])
            buffers[1] = pickle.loads(pickle.dumps(buffers[1]))
    assert_same_batches(*buffers)


def test_priorities_take_less_than_nine_bytes_a_transition():
    assert (
        8
        < (prioritized_buffer(buffer_size=10**5).nbytes - counting_buffer(buffer_size=10**5).nbytes) / 1e5
        < 9
    )


def test_one_thread_samples_another_updates_and_a_third_adds():
    buffer = prioritized_buffer([30], buffer_size=200)
    batches = [buffer.sample(32)]

    def sample():
        for _ in range(300):
            batches.append(buffer.sample(32))
            np.testing.assert_array_equal(
                batches[-1].observations["observation"][:, 1], batches[-1].index - batches[-1].episode
            )

    def update():
        rng = np.random.default_rng(0)
        return [
            buffer.update_priorities(batches[rng.integers(len(batches))].index, rng.random(32))
            for _ in range(300)
        ]

    def add():
        for number in range(300):
            buffer.add_episode(counting_episode(number, 1 + number % 60))

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(work) for work in (sample, update, add)]:
            done.result()
    buffer.verify()
    assert len(batches) == 301


def test_update_priorities_takes_torch_tensors():
    buffer = prioritized_buffer([40, 40])
    for _ in range(3):
        batch = buffer.sample(32).to_torch()
        error = batch.rewards - torch.ones(32, requires_grad=True)
        (batch.weights * error.square()).mean().backward()
        assert buffer.update_priorities(batch.index, error.abs()) == 0
