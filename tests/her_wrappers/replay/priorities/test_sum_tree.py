"""SumTree compared with a list: values, sampling probabilities, and no samples of slots with value 0."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from her_wrappers.replay import sum_tree
from her_wrappers.replay.sum_tree import WIDTH, SumTree, _descend

CAPACITIES = [1, 2, WIDTH, WIDTH + 1, 1000, 4096, 4097, 16 * 4096, 16 * 4096 + 1, 70_001]
"""Capacities of trees with different numbers of levels."""

NUMBERS = st.one_of(
    st.just(0.0), st.sampled_from([1e-30, 1e-12, 1.0, 1e12, 3e38]), st.floats(1e-30, 3e38), st.floats(0.5, 2)
)


def filled(numbers):
    tree = SumTree(len(numbers))
    tree.set_range(0, len(numbers), numbers)
    return tree


def everything(tree, capacity):
    return tree.get(np.arange(capacity))


@given(st.sampled_from(CAPACITIES), st.data())
def test_a_tree_has_the_last_values_and_equal_values_give_equal_trees(capacity, data):
    """The sums in the tree are bit-identical too, whatever the order of the calls was."""
    tree, expected = SumTree(capacity), np.zeros(capacity)
    place = st.integers(0, capacity - 1)
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()):
            items = data.draw(st.lists(st.tuples(place, NUMBERS), min_size=1, max_size=20))
            slots, numbers = (np.array(column) for column in zip(*items, strict=True))
            tree.set(slots, numbers)
            for i in set(slots.tolist()):
                expected[i] = max(number for number, at in zip(numbers, slots, strict=True) if at == i)
        else:
            first, last = sorted(data.draw(st.tuples(place, place)))
            numbers = data.draw(NUMBERS) * (1 + np.arange(last + 1 - first) % 3)
            tree.set_range(first, last + 1, numbers)
            expected[first : last + 1] = numbers
        np.testing.assert_array_equal(everything(tree, capacity), expected)
        tree.verify()
    for level, other in zip(tree._levels, filled(expected)._levels, strict=True):
        assert level.tobytes() == other.tobytes()


def test_of_several_numbers_for_one_place_the_largest_stays_in_any_order():
    for numbers in ([3.0, 1.0, 2.0], [1.0, 2.0, 3.0], [3.0, 3.0, 0.0]):
        tree = filled(np.full(100, 9.0))
        tree.set(np.array([50, 50, 50]), np.array(numbers))
        assert tree.get(np.array([49, 50, 51])).tolist() == [9, 3, 9]
        tree.verify()


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_every_fraction_of_the_total_finds_its_slot(capacity):
    """Sums of integers are exact, so the slot of each unit of the total is known."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 4, capacity)
    numbers[rng.integers(capacity)] += 2**18 - numbers.sum()
    expected = np.repeat(np.arange(capacity), numbers)
    begins = np.arange(2**18) / 2**18
    tree = filled(numbers.astype(float))
    for shift in (0, 2.0**-19, 2.0**-18 - 2.0**-50):
        np.testing.assert_array_equal(tree.find(begins + shift), expected)


@given(
    st.sampled_from(CAPACITIES),
    st.lists(NUMBERS.filter(bool), min_size=1, max_size=40),
    st.lists(st.floats(0, 1, exclude_max=True), max_size=40),
    st.integers(0, 2**32),
)
def test_slots_with_value_0_are_never_found(capacity, numbers, fractions, seed):
    """The values differ by up to 68 orders of magnitude."""
    rng = np.random.default_rng(seed)
    everywhere = np.zeros(capacity)
    everywhere[rng.integers(0, capacity, len(numbers))] = numbers
    tree = filled(everywhere)
    ends = everywhere.cumsum() / everywhere.sum()
    edges = np.unique(ends)[:200]
    trials = [np.array(fractions), edges, np.nextafter(edges, 0), np.nextafter(edges, 1), rng.random(200)]
    trials = np.concatenate([*trials, [0, np.nextafter(1, 0)]])
    found = tree.find(trials[(trials >= 0) & (trials < 1)])
    assert (tree.get(found) > 0).all()


@pytest.mark.parametrize("left", [-1e-9, 0.0, 2.0, 2.5, 1e300])
@pytest.mark.parametrize("at", [0, 1, 7, WIDTH - 1])
def test_a_search_that_rounding_moves_past_a_node_ends_at_a_positive_value(left, at):
    rows = np.zeros((2, WIDTH))
    rows[:, at] = 2.0
    nodes, rest = _descend(rows, np.array([5, 0]), np.array([left, 1.0]))
    assert nodes.tolist() == [5 * WIDTH + at, at]
    assert rest.tolist() == [left, 1.0]


def test_a_search_that_rounding_moves_past_a_node_changes_no_other_search():
    rows = np.zeros((2, WIDTH))
    rows[0, 3], rows[1, [2, 5]] = 2.0, (0.25, 4.0)
    nodes, rest = _descend(rows, np.array([0, 0]), np.array([1e300, 0.125]))
    assert nodes.tolist() == [3, 2]
    assert rest.tolist() == [1e300, 0.125]


@pytest.mark.parametrize("capacity", [7, 5000, 70_000])
def test_places_are_found_as_often_as_their_numbers_say(capacity):
    rng = np.random.default_rng(0)
    numbers = np.zeros(capacity)
    some = rng.choice(capacity, 7, replace=False)
    numbers[some] = [1, 1, 2, 3, 5, 8, 0]
    found = filled(numbers).find(rng.random(60_000))
    counts = np.array([(found == place).sum() for place in some])
    assert counts.sum() == 60_000
    assert stats.chisquare(counts[:-1], 60_000 * np.array([1, 1, 2, 3, 5, 8]) / 20).pvalue > 1e-4


def test_a_copy_is_a_tree_of_its_own():
    tree = filled(np.ones(70_000))
    twin = copy.deepcopy(tree)
    twin.set(np.array([3]), np.array([7.0]))
    twin.verify()
    assert tree.get(np.array([3])) == 1
    assert twin.find(np.array([3.5]) / 70_006) == [3]


def test_verify_finds_a_sum_that_does_not_agree():
    tree = filled(np.ones(5000))
    tree._levels[0][3, 3] = 2
    with pytest.raises(RuntimeError, match="the sums of its priorities are wrong"):
        tree.verify()


def test_it_takes_less_than_nine_bytes_a_place():
    assert SumTree(1_000_000).nbytes < 8.6e6


@pytest.mark.parametrize("made", [copy.copy, copy.deepcopy, lambda tree: pickle.loads(pickle.dumps(tree))])
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_a_copy_of_a_tree_is_equal_to_the_last_bit_in_memory_of_its_own(capacity, made):
    rng = np.random.default_rng(capacity)
    for stored in {0, 1, capacity // 2, capacity}:
        tree = SumTree(capacity)
        tree.set_range(0, stored, rng.random(stored))
        twin, levels = made(tree), copy.deepcopy(tree._levels)
        twin.verify()
        for level, other in zip(levels, twin._levels, strict=True):
            np.testing.assert_array_equal(level, other)
        twin.set_range(0, capacity, 7.0)
        for level, other in zip(levels, tree._levels, strict=True):
            np.testing.assert_array_equal(level, other)


def test_a_pickle_of_a_tree_has_the_positive_values_only():
    tree = SumTree(100_000)
    tree.set_range(0, 30, 1.0)
    assert len(pickle.dumps(tree)) < 1000 < tree.nbytes


@pytest.mark.parametrize("change", ["set", "set_range"])
def test_an_interruption_between_any_two_steps_is_repaired(change, monkeypatch):
    numbers = np.random.default_rng(0).random(70_001)
    tree = SumTree(len(numbers))
    tree.set_range(0, len(numbers), numbers)

    def interrupt(*_):
        raise KeyboardInterrupt

    changes = {
        "set": lambda: tree.set(np.arange(0, 70_001, 7), np.full(10_001, 9.0)),
        "set_range": lambda: tree.set_range(100, 200, 9.0),
    }
    with monkeypatch.context() as patch:
        patch.setattr(sum_tree, "_sums", interrupt)
        with pytest.raises(KeyboardInterrupt):
            changes[change]()
    tree.repair()
    tree.verify()
