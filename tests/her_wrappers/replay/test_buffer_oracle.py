"""The buffer compared with an oracle: every sampled row is correct, and all are sampled equally often."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from her_wrappers import Mixture
from tests.support.counting import DESIRED, counting_buffer, counting_episode

STRATEGIES = ("future", "final", "episode", "random", "desired")
"""Strategies that sample uniformly; geometric goals are tested on integers and in mixtures."""


def surviving(episodes, buffer_size):
    """Return the newest episodes that fit in the buffer: (number, length, terminated), oldest first."""
    kept, steps = [], 0
    for episode in reversed(episodes):
        steps += episode[1]
        if steps > buffer_size:
            break
        kept.insert(0, episode)
    return kept


def goal_set(strategy, number, t, kept):
    """Return the goals that may replace the goal of step ``t`` of episode ``number``, as (episode, state).

    A goal occurs once for each state or step that supplies it.
    """
    length = {episode: steps for episode, steps, _ in kept}[number]
    return {
        "future": [(number, s) for s in range(t + 1, length + 1)],
        "final": [(number, length)],
        "episode": [(number, s) for s in range(1, length + 1)],
        "random": [(episode, s) for episode, steps, _ in kept for s in range(1, steps + 1)],
        "desired": [(episode, DESIRED) for episode, steps, _ in kept for _ in range(steps)],
    }[strategy]


def explain(batch, episodes, buffer_size, strategy):
    """Assert that every row is a transition of a stored episode with a possible goal."""
    kept = surviving(episodes, buffer_size)
    first_index = dict(zip((e[0] for e in episodes), np.cumsum([0] + [e[1] for e in episodes]), strict=False))
    lengths = {number: (length, terminated) for number, length, terminated in kept}
    for i in range(len(batch)):
        number, t = (int(x) for x in batch.observations["observation"][i])
        length, terminated = lengths[number]
        last, relabeled = t == length - 1, bool(batch.relabeled[i])
        here, there = [number, t], [number, t + 1]
        assert 0 <= t < length
        assert batch.observations["achieved_goal"][i].tolist() == here
        assert batch.next_observations["observation"][i].tolist() == there
        assert batch.next_observations["achieved_goal"][i].tolist() == there
        assert batch.actions[i].tolist() == [number + t / 1000]
        assert batch.index[i] == first_index[number] + t
        goal = batch.observations["desired_goal"][i].tolist()
        assert batch.next_observations["desired_goal"][i].tolist() == goal
        if relabeled:
            assert tuple(goal) in goal_set(strategy, number, t, kept)
        else:
            assert goal == [number, DESIRED]
        reached = goal == there
        assert batch.rewards[i] == (0 if reached else -1)
        # the desired goals were never achieved, so terminations are independent of the goal
        assert batch.terminations[i] == ((relabeled and reached) or (last and terminated))
        assert batch.truncations[i] == (last and not terminated)


OPTIONS = st.fixed_dictionaries({
    "buffer_size": st.integers(1, 40),
    "goal_selection_strategy": st.sampled_from(STRATEGIES),
    "n_sampled_goal": st.integers(0, 9),
    "seed": st.integers(0, 2**32),
})


@settings(max_examples=300)
@given(
    options=OPTIONS,
    steps=st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=60),
    batch_size=st.integers(1, 40),
)
def test_every_row_is_correct_for_any_sequence_of_episodes(options, steps, batch_size):
    """Episodes have between one step and as many steps as the buffer can store."""
    buffer, buffer_size = counting_buffer(**options), options["buffer_size"]
    strategy = options["goal_selection_strategy"]
    episodes = []
    for number, (length, terminated) in enumerate(steps):
        episodes.append((number, min(length, buffer_size), terminated))
        buffer.add_episode(counting_episode(number, episodes[-1][1], terminated=terminated))
        kept = surviving(episodes, buffer_size)
        assert len(buffer) == sum(episode[1] for episode in kept)
        assert buffer.num_episodes == len(kept)
        buffer.verify()
        explain(buffer.sample(batch_size), episodes, buffer_size, strategy)


LENGTHS = [5, 1, 7, 2, 9, 1, 3, 6, 2, 4]
"""After these episodes a buffer of 24 has wrapped and holds the last six, steps 1, 3, 6, 2, 4."""


def sampled_goals(strategy, *, draws=60_000, batch_size=256):
    """Sample many rows; return counts of relabeled (episode, step, goal) and of all (episode, step)."""
    buffer = counting_buffer(buffer_size=24, goal_selection_strategy=strategy)
    for number, length in enumerate(LENGTHS):
        buffer.add_episode(counting_episode(number, length))
    goals, rows = Counter(), Counter()
    for _ in range(draws // batch_size):
        batch = buffer.sample(batch_size)
        sources = [tuple(row) for row in batch.observations["observation"].astype(int).tolist()]
        rows.update(sources)
        chosen = batch.observations["desired_goal"].astype(int).tolist()
        goals.update(
            (source, tuple(goal))
            for source, goal, relabeled in zip(sources, chosen, batch.relabeled, strict=True)
            if relabeled
        )
    kept = surviving([(number, length, False) for number, length in enumerate(LENGTHS)], 24)
    return goals, rows, kept


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_goals_have_their_exact_distribution_for_every_transition(strategy):
    goals, _, kept = sampled_goals(strategy)
    p_values = []
    for number, length, _ in kept:
        for t in range(length):
            allowed = Counter(goal_set(strategy, number, t, kept))
            counts = [goals[(number, t), goal] for goal in allowed]
            assert min(counts) > 0, f"a goal of step {t} of episode {number} is never chosen"
            if len(allowed) > 1:
                expected = np.array(list(allowed.values())) * sum(counts) / allowed.total()
                p_values.append(stats.chisquare(counts, expected).pvalue)
    assert sum(goals.values()) == sum(
        goals[(number, t), goal]
        for number, length, _ in kept
        for t in range(length)
        for goal in set(goal_set(strategy, number, t, kept))
    ), "no goal outside the set"
    if p_values:
        assert min(p_values) > 1e-4 / len(p_values)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_transitions_are_sampled_equally_often_relabeled_or_not(strategy):
    goals, rows, kept = sampled_goals(strategy)
    transitions = [(number, t) for number, length, _ in kept for t in range(length)]
    assert rows.keys() == set(transitions)
    relabeled = Counter()
    for (source, _), count in goals.items():
        relabeled[source] += count
    for counter in (rows, relabeled, rows - relabeled):
        assert stats.chisquare([counter[source] for source in transitions]).pvalue > 1e-4


@pytest.mark.parametrize("n_sampled_goal", [0, 1, 4, 9])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 32])
def test_the_relabeled_share_is_exact_in_expectation_for_every_batch_size(batch_size, n_sampled_goal):
    buffer = counting_buffer(n_sampled_goal=n_sampled_goal)
    buffer.add_episode(counting_episode(0, 8))
    counts = np.array([buffer.sample(batch_size).relabeled.sum() for _ in range(3000)])

    exact = batch_size * n_sampled_goal / (n_sampled_goal + 1)
    assert set(counts) <= {int(exact), int(exact) + 1}
    remainder = exact - int(exact)
    ceilings = (counts > int(exact)).sum()
    assert stats.binomtest(int(ceilings), len(counts), remainder).pvalue > 1e-4


MIXTURES = [
    ({"future": 0.6, "random": 0.2, "original": 0.2}, {}),
    ({"final": 0.5, "episode": 0.25, "geometric": 0.25}, {"n_sampled_goal": 1}),
    ({"random": 0.3, "final": 0.7}, {"her_ratio": 0.9}),
    ({"desired": 0.3, "future": 0.5, "original": 0.2}, {}),
    ({"original": 1.0}, {}),
]


@pytest.mark.parametrize(("shares", "options"), MIXTURES)
@pytest.mark.parametrize("batch_size", [1, 3, 10])
def test_every_component_of_a_mixture_has_its_share_and_its_goals(shares, options, batch_size):
    buffer = counting_buffer(goal_selection_strategy=Mixture(shares), **options)
    episodes = [(number, length, False) for number, length in enumerate([4, 1, 6])]
    for number, length, _ in episodes:
        buffer.add_episode(counting_episode(number, length))
    relabeled = {"n_sampled_goal": 0.5, "her_ratio": 0.9}.get(*options or [""], 1.0)
    expected = {name: share * (relabeled if options else 1) for name, share in shares.items()}
    expected["original"] = 1 - sum(share for name, share in expected.items() if name != "original")
    counts, batches = Counter(), 3000
    for _ in range(batches):
        batch = buffer.sample(batch_size)
        found = Counter(batch.strategy.tolist())
        counts += found
        for name, count in found.items():
            assert abs(count - batch_size * expected[name]) < 1
        for i in range(batch_size):
            check_provenance(batch, i, episodes)
    for name, share in expected.items():
        total = batches * batch_size
        assert stats.binomtest(counts[name], total, min(1, max(0, share))).pvalue > 1e-5


def check_provenance(batch, i, episodes):
    """Assert that the recorded episode, step and goal of row i are correct."""
    first_index = dict(zip((e[0] for e in episodes), np.cumsum([0] + [e[1] for e in episodes]), strict=False))
    number, t = (int(x) for x in batch.observations["observation"][i])
    assert batch.episode[i] == first_index[number]
    assert batch.index[i] == first_index[number] + t
    name = str(batch.strategy[i])
    assert batch.relabeled[i] == (name != "original")
    if name == "original":
        assert batch.goal_index[i] == -1
        return
    source, s = (int(x) for x in batch.observations["desired_goal"][i])
    if name == "desired":
        steps = range(first_index[source], first_index[source] + dict(e[:2] for e in episodes)[source])
        assert batch.goal_index[i] in steps
    else:
        assert batch.goal_index[i] == first_index[source] + s - 1
    assert (source, s) in goal_set("future" if name == "geometric" else name, number, t, episodes)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_stay_correct_in_a_long_run_of_a_full_ring(strategy):
    rng = np.random.default_rng(0)
    buffer = counting_buffer(buffer_size=500, goal_selection_strategy=strategy)
    episodes = []
    for number in range(5000):
        # in part only short episodes, for which the rings grow, and every thousandth episode fills the buffer
        length = 500 if number % 1000 == 999 else int(rng.integers(1, 3 if number % 400 > 200 else 120))
        episodes.append((number, length, bool(rng.integers(2))))
        buffer.add_episode(counting_episode(number, length, terminated=episodes[-1][2]))
        if number % 10 == 0:
            explain(buffer.sample(256), episodes, 500, strategy)
