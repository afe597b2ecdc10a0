"""Goal selection on bare integers: exact sets, and exact distributions, ends included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from her_wrappers.replay.goal_selection import STRATEGIES, require_states

EXPECTED_SETS = {
    "future": lambda t, length: range(t + 1, length + 1),
    "final": lambda t, length: range(length, length + 1),
    "episode": lambda t, length: range(1, length + 1),
}


def test_every_strategy_has_a_stated_set():
    assert EXPECTED_SETS.keys() == STRATEGIES.keys()


@pytest.mark.parametrize("name", STRATEGIES)
@given(length=st.integers(1, 12), data=st.data(), seed=st.integers(0, 2**32))
def test_every_state_of_the_set_is_drawn_equally_often_and_no_other(name, length, data, seed):
    t = data.draw(st.integers(0, length - 1))
    draws = 4000
    states = STRATEGIES[name](np.full(draws, t), np.full(draws, length), np.random.default_rng(seed))

    expected = EXPECTED_SETS[name](t, length)
    counts = np.bincount(states, minlength=length + 1)

    assert set(np.flatnonzero(counts)) == set(expected)
    if len(expected) > 1:
        assert stats.chisquare(counts[expected.start :]).pvalue > 1e-7


@pytest.mark.parametrize("name", STRATEGIES)
@given(
    rows=st.lists(st.tuples(st.integers(1, 2**31 - 1), st.floats(0, 1, exclude_max=True)), min_size=1),
    seed=st.integers(0, 2**32),
)
def test_rows_keep_to_their_own_episode_however_long(name, rows, seed):
    length = np.array([row[0] for row in rows])
    t = np.array([int(row[0] * row[1]) for row in rows])
    states = STRATEGIES[name](t, length, np.random.default_rng(seed))
    assert ((states >= 1) & (states <= length)).all()
    if name != "episode":
        assert (states > t).all()


class LargestDraw(np.random.Generator):
    """A generator that always draws the largest number below 1."""

    def random(self, size):
        return np.full(size, np.nextafter(1, 0))


@given(length=st.integers(1, 2**31 - 1))
def test_rounding_never_carries_a_draw_out_of_the_episode(length):
    rng = LargestDraw(np.random.PCG64())
    assert STRATEGIES["future"](np.array([0]), np.array([length]), rng) == length
    assert STRATEGIES["episode"](np.array([0]), np.array([length]), rng) == length


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
        require_states(strategy)(np.array([0, 2]), np.array([3, 3]), np.random.default_rng())
