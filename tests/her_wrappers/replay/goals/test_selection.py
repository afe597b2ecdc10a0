"""Goal selection on integers: exact sets and exact distributions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from her_wrappers.replay.goal_selection import STRATEGIES, Geometric, ValidatedStrategy

pytestmark = pytest.mark.arrays_only("the tests use no buffer")

STRATEGIES_UNDER_TEST = STRATEGIES | {"near": Geometric(0.6), "nearer": Geometric(0.3)}


def geometric_weights(gamma):
    return lambda t, length: {t + d: gamma ** (d - 1) for d in range(1, length - t + 1)}


WEIGHTS = {
    "future": lambda t, length: dict.fromkeys(range(t + 1, length + 1), 1),
    "final": lambda t, length: {length: 1},
    "episode": lambda t, length: dict.fromkeys(range(1, length + 1), 1),
    "geometric": geometric_weights(0.99),
    "near": geometric_weights(0.6),
    "nearer": geometric_weights(0.3),
}
"""Functions that return the states that a strategy may select, with their relative probabilities."""


def test_every_strategy_has_a_stated_set():
    assert WEIGHTS.keys() == STRATEGIES_UNDER_TEST.keys()


@pytest.mark.parametrize("name", STRATEGIES_UNDER_TEST)
@given(length=st.integers(1, 12), data=st.data(), seed=st.integers(0, 2**32))
def test_states_are_sampled_with_their_exact_probabilities(name, length, data, seed):
    t, draws = data.draw(st.integers(0, length - 1)), 4000
    strategy = STRATEGIES_UNDER_TEST[name]
    states = strategy(np.full(draws, t), np.full(draws, length), np.random.default_rng(seed))

    weights = WEIGHTS[name](t, length)
    counts = np.bincount(states, minlength=length + 1)
    expected = draws * np.array(list(weights.values())) / sum(weights.values())
    common = expected > 5  # a chi-square test needs several samples of each state

    assert set(np.flatnonzero(counts)) <= weights.keys()
    assert counts[list(weights)][common].all()
    observed = counts[list(weights)][common]
    if len(observed) > 1:
        scaled = expected[common] * observed.sum() / expected[common].sum()
        assert stats.chisquare(observed, scaled).pvalue > 1e-7


@pytest.mark.parametrize("name", STRATEGIES_UNDER_TEST)
@given(
    rows=st.lists(st.tuples(st.integers(1, 2**31 - 1), st.floats(0, 1, exclude_max=True)), min_size=1),
    seed=st.integers(0, 2**32),
)
def test_goals_of_a_row_are_states_of_its_episode(name, rows, seed):
    length = np.array([row[0] for row in rows])
    t = np.array([int(row[0] * row[1]) for row in rows])
    states = STRATEGIES_UNDER_TEST[name](t, length, np.random.default_rng(seed))
    assert ((states >= 1) & (states <= length)).all()
    if name != "episode":
        assert (states > t).all()


class LargestDraw(np.random.Generator):
    """A generator that always returns the largest number below 1."""

    def random(self, size):
        return np.full(size, np.nextafter(1, 0))


@given(length=st.integers(1, 2**31 - 1))
def test_rounding_never_gives_a_state_outside_of_the_episode(length):
    rng = LargestDraw(np.random.PCG64())
    assert STRATEGIES["future"](np.array([0]), np.array([length]), rng) == length
    assert STRATEGIES["episode"](np.array([0]), np.array([length]), rng) == length
    assert 1 <= Geometric(0.5)(np.array([0]), np.array([length]), rng) <= length


@pytest.mark.parametrize("gamma", [0, 1, -0.5, 1.5, np.nan, "0.9", None])
def test_a_geometric_strategy_needs_a_gamma_between_0_and_1(gamma):
    with pytest.raises(ValueError, match=r"gamma of Geometric must lie in \(0, 1\), got"):
        Geometric(gamma)


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (
            lambda t, length, rng: t,
            "must return states in 1..length, got 0 at step 0 of an episode of length 3",
        ),
        (lambda t, length, rng: length + 1, "got 4 at step 0 of an episode of length 3"),
        (lambda t, length, rng: length / 1, r"must return \(2,\) whole numbers, got float64 of shape \(2,\)"),
        (lambda t, length, rng: 1, r"must return \(2,\) whole numbers, got int64 of shape \(\)"),
    ],
)
def test_a_users_strategy_may_not_leave_the_episode(strategy, message):
    with pytest.raises(ValueError, match=message):
        ValidatedStrategy(strategy)(np.array([0, 2]), np.array([3, 3]), np.random.default_rng())
