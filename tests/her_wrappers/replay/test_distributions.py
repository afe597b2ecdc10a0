"""Rows, goals and strategies have their exact distributions, by chi-square tests with fixed seeds."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from her_wrappers import Geometric, Mixture, Priority
from her_wrappers.replay.goal_selection import STRATEGIES
from tests.support.buffers import make_buffer
from tests.support.chi_square import assert_proportional
from tests.support.counting import COUNTING, counting_episode
from tests.support.expected_buffer import ExpectedBuffer

LENGTHS = [5, 1, 7, 2, 9, 1, 3, 6, 2, 4]
"""After these episodes a buffer of 24 has wrapped and holds the last five, steps 24 to 39."""

GEOMETRIC = {"geometric": 0.99, Geometric(0.6): 0.6}
IN_EPISODE = (*STRATEGIES, *GEOMETRIC)


def filled(device=None, lengths=LENGTHS, **options):
    """Return a buffer of counting episodes, and its oracle."""
    options = {"buffer_size": 24} | options
    buffer, oracle = make_buffer(device, **options), ExpectedBuffer(COUNTING, **options)
    for number, length in enumerate(lengths):
        buffer.add_episode(counting_episode(number, length))
        oracle.add_episode(counting_episode(number, length))
    return buffer, oracle


def pairs_of(buffer, draws, batch_size=500):
    """Sample many rows; return the number of each (step, step that supplied the goal or -1)."""
    pairs = Counter()
    for _ in range(draws // batch_size):
        batch = buffer.sample(batch_size)
        pairs.update(zip(batch.to_numpy().index.tolist(), batch.goal_index.tolist(), strict=True))
    return pairs


def odds_of_goals(strategy, oracle, step):
    """Return the probability of each goal of a step, up to a factor."""
    name = "geometric" if strategy in GEOMETRIC else strategy
    sources = oracle.sources(name, *oracle.find(step))
    gamma = GEOMETRIC.get(strategy, 1)
    return {source: gamma ** (source - step if strategy in GEOMETRIC else 0) for source in sources}


@pytest.mark.parametrize("strategy", [*IN_EPISODE, "random", "desired"], ids=str)
def test_steps_and_their_goals_have_their_exact_distribution(device, strategy):
    buffer, oracle = filled(device, goal_selection_strategy=strategy)
    pairs = pairs_of(buffer, 20_000)
    odds = {}
    for step in oracle.odds():
        goals = odds_of_goals(strategy, oracle, step)
        odds |= {(step, goal): 0.8 * odd / sum(goals.values()) for goal, odd in goals.items()}
        odds[step, -1] = 0.2
    assert pairs.keys() == odds.keys(), "every goal of the set is sampled, the end points included"
    assert_proportional(pairs, odds)


@pytest.mark.parametrize(("batch_size", "original"), [(1, None), (3, 0.25), (50, 0)])
def test_each_strategy_of_a_mixture_has_its_share(device, batch_size, original):
    shares = {"desired": 0.2, "future": 0.45, "final": 0.35 - (original or 0)}
    mixture = Mixture(shares if original is None else shares | {"original": original})
    buffer, oracle = filled(device, goal_selection_strategy=mixture)
    found = Counter()
    for _ in range(500):
        batch = buffer.sample(batch_size)
        found.update(batch.strategy.tolist())
    for name, share in oracle.shares.items():
        assert stats.binomtest(found[name], found.total(), share).pvalue > 1e-4
    oracle.check_batch(batch, batch_size)


# --- priorities -----------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0, 0.6])
def test_steps_are_sampled_in_proportion_to_their_scaled_priorities(device, alpha):
    """Steps without an update have the largest priority that was given before they were added."""
    buffer, oracle = filled(device, lengths=LENGTHS[:-1], prioritized=Priority(alpha=alpha, eps=1e-3))
    priorities = np.random.default_rng(0).exponential(size=34).round(2)
    for each in (buffer, oracle):
        each.update_priorities(np.arange(34), priorities)
        each.add_episode(counting_episode(9, 4))
    steps = Counter()
    for (step, _), count in pairs_of(buffer, 40_000).items():
        steps[step] += count
    assert_proportional(steps, oracle.odds())


@pytest.mark.parametrize("beta", [0, 1])
def test_weights_have_the_exponent_of_the_option_or_of_the_call(device, beta):
    buffer, oracle = filled(device, prioritized=Priority(alpha=0.7, beta=beta))
    other, other_oracle = filled(device, prioritized=Priority(alpha=0.7, beta=0.9))
    index, priorities = range(24, 40), np.random.default_rng(0).exponential(size=16)
    for each in (buffer, oracle, other, other_oracle):
        each.update_priorities(index, priorities)
    for _ in range(3):
        oracle.check_batch(buffer.sample(16), 16)
        oracle.check_batch(other.sample(16, beta=beta), 16)
        other_oracle.check_batch(other.sample(16), 16)


def test_updated_priorities_and_new_episodes_apply_to_the_next_batch(device):
    """Batches that were prefetched before are dropped."""
    buffer, _ = filled(device, prioritized=Priority(alpha=1))
    for number in (27, 39, 24):
        for _ in range(3):
            buffer.sample(8)
        buffer.update_priorities(np.arange(40), np.where(np.arange(40) == number, 1e12, 0))
        assert set(buffer.sample(8).index.tolist()) == {number}
    buffer.add_episode(counting_episode(10, 24))
    assert min(buffer.sample(8).index.tolist()) >= 40


def test_rows_and_strategies_are_independent_of_each_other_and_of_priorities():
    """Stratified sampling, or strategies by the order of sampled rows, would give other pairs."""
    mixture = Mixture({"future": 0.4, "random": 0.3, "original": 0.3})
    buffer, _ = filled(lengths=[4], prioritized=Priority(alpha=1), goal_selection_strategy=mixture)
    buffer.update_priorities(range(4), [1, 2, 3, 4])
    pairs, names, goals = Counter(), Counter(), Counter()
    for _ in range(800):
        batch = buffer.sample(2)
        pairs[tuple(batch.index.tolist())] += 1
        names.update(zip(batch.index.tolist(), batch.strategy.tolist(), strict=True))
        goals.update(batch.goal_index[batch.strategy == "random"].tolist())
        buffer.update_priorities([], [])
    odds = {(i, j): (i + 1) * (j + 1) for i in range(4) for j in range(4)}
    assert_proportional(pairs, odds)
    table = [[names[i, name] for name in ("future", "random", "original")] for i in range(4)]
    assert stats.chi2_contingency(table).pvalue > 1e-4
    assert_proportional(goals, dict.fromkeys(range(4), 1.0))


# --- strategies on integers -----------------------------------------------------------------------


@pytest.mark.parametrize("strategy", IN_EPISODE, ids=str)
@settings(max_examples=8)
@given(
    rows=st.lists(st.tuples(st.integers(1, 2**31 - 1), st.floats(0, 1, exclude_max=True)), min_size=1),
    seed=st.integers(0, 2**32),
)
def test_strategies_choose_states_of_their_set_in_episodes_of_any_length(strategy, rows, seed):
    select = STRATEGIES.get(strategy, strategy)
    length = np.array([row[0] for row in rows])
    t = np.array([int(row[0] * row[1]) for row in rows])
    states = select(t, length, np.random.default_rng(seed))
    first = {"final": length, "episode": 1}.get(strategy, t + 1)
    assert ((first <= states) & (states <= length)).all()
    np.testing.assert_array_equal(states, select(t, length, np.random.default_rng(seed)))
