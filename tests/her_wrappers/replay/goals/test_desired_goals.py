"""The strategy "desired": the desired goals of other stored transitions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from her_wrappers import Mixture
from tests.support.counting import counting_buffer, counting_episode

LENGTHS = [3, 1, 6, 2]
MIXTURE = Mixture({"desired": 0.4, "future": 0.4, "original": 0.2})


def changing_goals(number, length):
    """Return an episode with another desired goal in each state: (number, -1), (number, -2), and so on."""
    episode = counting_episode(number, length)
    episode.observations["desired_goal"][:, 1] = -1 - np.arange(length + 1)
    return episode


def changing(**options):
    """Return a buffer with episodes of `LENGTHS` steps whose goals change at each step."""
    buffer = counting_buffer(**{"goal_selection_strategy": "desired"} | options)
    for number, length in enumerate(LENGTHS):
        buffer.add_episode(changing_goals(number, length))
    return buffer


@pytest.mark.parametrize("strategy", ["desired", MIXTURE])
def test_a_new_goal_is_the_desired_goal_after_the_step_that_goal_index_names(strategy):
    batch = changing(goal_selection_strategy=strategy).sample(3000)
    rows = batch.strategy == "desired"
    goals_after = [(number, -2 - t) for number, length in enumerate(LENGTHS) for t in range(length)]
    expected = np.array(goals_after)[batch.goal_index[rows]]
    np.testing.assert_array_equal(batch.observations["desired_goal"][rows], expected)
    np.testing.assert_array_equal(batch.next_observations["desired_goal"][rows], expected)


@pytest.mark.parametrize("strategy", ["desired", MIXTURE])
def test_original_rows_keep_their_goals(strategy):
    batch = changing(goal_selection_strategy=strategy).sample(3000)
    rows = ~batch.relabeled
    assert rows.any()
    number, t = batch.observations["observation"][rows].T
    np.testing.assert_array_equal(batch.observations["desired_goal"][rows], np.stack([number, -1 - t], 1))
    np.testing.assert_array_equal(
        batch.next_observations["desired_goal"][rows], np.stack([number, -2 - t], 1)
    )


def test_each_stored_step_supplies_its_goal_equally_often_to_each_step():
    batch = changing(her_ratio=1.0).sample(60_000)
    steps = sum(LENGTHS)
    counts = Counter(zip(batch.index.tolist(), batch.goal_index.tolist(), strict=True))
    pairs = [(step, source) for step in range(steps) for source in range(steps)]
    assert counts.keys() == set(pairs)
    assert stats.chisquare([counts[pair] for pair in pairs]).pvalue > 1e-4


@pytest.mark.parametrize("n_steps", [1, 3])
def test_evicted_episodes_supply_no_goals(n_steps):
    buffer = changing(buffer_size=8, n_steps=n_steps)  # the last two episodes stay
    batch = buffer.sample(2000)
    assert set(batch.observations["desired_goal"][:, 0]) == {2, 3}
    assert set(batch.goal_index[batch.relabeled]) == set(range(4, 12))


def test_desired_goals_follow_the_achieved_goals_of_a_mixture():
    batch = changing(goal_selection_strategy=MIXTURE).sample(1000)
    assert batch.strategy.tolist() == ["future"] * 400 + ["desired"] * 400 + ["original"] * 200


def test_new_rewards_and_terminations_are_those_of_the_desired_goal():
    buffer = counting_buffer(goal_selection_strategy="desired", her_ratio=1.0)
    for number, goal in enumerate([[1, 2], [0, 1]]):
        episode = counting_episode(number, 4)
        episode.observations["desired_goal"][:] = goal
        buffer.add_episode(episode)
    batch = buffer.sample(500)
    achieved = (batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]).all(-1)
    assert 0 < achieved.sum() < 500
    np.testing.assert_array_equal(batch.rewards, achieved - 1.0)
    np.testing.assert_array_equal(batch.terminations, achieved)


def test_desired_goals_that_were_achieved_before_the_step_are_sampled_once_more():
    shares = []
    for resample in (False, True):
        buffer = counting_buffer(
            goal_selection_strategy="desired", her_ratio=1.0, resample_achieved_goals=resample
        )
        for number, goal in enumerate([0, 0, 0, 1]):
            episode = counting_episode(number, 1)
            episode.observations["achieved_goal"][0] = 0
            episode.observations["desired_goal"][:] = goal
            buffer.add_episode(episode)
        shares.append(buffer.statistics(40_000).trivial_share)
    np.testing.assert_allclose(shares, [3 / 4, (3 / 4) ** 2], atol=0.01)


def test_the_achieved_goals_of_a_mixture_are_sampled_once_more_too():
    buffer = counting_buffer(goal_selection_strategy=MIXTURE, resample_achieved_goals=True)
    for number, length in enumerate([4, 6]):
        episode = changing_goals(number, length)
        episode.observations["achieved_goal"][:-1] = 0
        buffer.add_episode(episode)
    batch = buffer.sample(20_000)
    rows = batch.strategy == "future"
    trivial = (batch.observations["desired_goal"] == 0).all(-1)
    # All later states except the last are trivial goals; sampling again squares their probability.
    odds = np.concatenate([1 - 1 / np.arange(1, length + 1) for length in (4, 6)])
    np.testing.assert_allclose(trivial[rows].mean(), (odds**2).mean(), atol=0.02)
    assert (batch.observations["desired_goal"][batch.strategy == "desired", 1] < -1).all()


def test_statistics_leave_out_the_distance_to_transitions_that_had_the_goal():
    mixture = Mixture({"desired": 0.5, "final": 0.5})
    buffer = counting_buffer(goal_selection_strategy=mixture)
    for number in range(50):
        buffer.add_episode(counting_episode(number, 1))
    assert buffer.statistics().mean_ahead == 0
    only_desired = counting_buffer(goal_selection_strategy="desired")
    only_desired.add_episode(counting_episode(0, 3))
    assert np.isnan(only_desired.statistics().mean_ahead)
