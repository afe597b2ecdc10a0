"""SumTree compared with a list: values, sampling probabilities, and no samples of slots with value 0."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from her_wrappers.replay.priorities import WIDTH, SumTree

CAPACITIES = [1, WIDTH + 1, 4096, 4097, 16 * 4096 + 1]
"""Capacities of trees with different numbers of levels."""

NUMBERS = st.one_of(
    st.just(0.0), st.sampled_from([1e-30, 1e-12, 1.0, 1e12, 3e38]), st.floats(1e-30, 3e38), st.floats(0.5, 2)
)


def filled(numbers):
    tree = SumTree(len(numbers))
    tree.set_range(0, len(numbers), numbers)
    return tree


@settings(max_examples=12)
@given(st.sampled_from(CAPACITIES), st.data())
def test_a_tree_has_the_last_values_and_equal_values_give_equal_trees(capacity, data):
    """Of several values for one slot, the largest stays. The sums do not depend on the order of the calls."""
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
        np.testing.assert_array_equal(tree.get(np.arange(capacity)), expected)
    if expected.any():
        fractions = np.random.default_rng(0).random(1000)
        np.testing.assert_array_equal(tree.find(fractions), filled(expected).find(fractions))


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


@settings(max_examples=30)
@given(
    st.sampled_from(CAPACITIES),
    st.lists(NUMBERS.filter(bool), min_size=1, max_size=40),
    st.lists(st.floats(0, 1, exclude_max=True), max_size=40),
    st.integers(0, 2**32),
)
def test_slots_with_value_0_are_never_found(capacity, numbers, fractions, seed):
    """The values differ by up to 68 orders of magnitude, and fractions lie at the edges of the slots."""
    rng = np.random.default_rng(seed)
    everywhere = np.zeros(capacity)
    everywhere[rng.integers(0, capacity, len(numbers))] = numbers
    tree, ends = filled(everywhere), everywhere.cumsum() / everywhere.sum()
    edges = np.unique(ends)[:200]
    trials = [np.array(fractions), edges, np.nextafter(edges, 0), np.nextafter(edges, 1), rng.random(200)]
    trials = np.concatenate([*trials, [0, np.nextafter(1, 0)]])
    assert (tree.get(tree.find(trials[(trials >= 0) & (trials < 1)])) > 0).all()
