"""Goals that were achieved before the step already: counted, and drawn once more on request."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers import Mixture
from tests.support.buffers import filled
from tests.support.counting import counting_buffer, counting_episode


def standing_still(length):
    """An episode that stays where it is until its last step."""
    episode = counting_episode(0, length)
    episode.observations["achieved_goal"][:-1] = 0
    return episode


def test_goals_that_ask_for_nothing_are_counted_and_on_request_redrawn():
    shares = []
    for skip in (False, True):
        buffer = counting_buffer(skip_trivial=skip)
        buffer.add_episode(standing_still(4))
        shares.append(buffer.statistics(40_000).trivial_share)
    # of the goals 1..4 after steps 0..3 all but the last are trivial; a redraw squares their odds
    odds = np.array([3 / 4, 2 / 3, 1 / 2, 0])
    np.testing.assert_allclose(shares, [odds.mean(), (odds**2).mean()], atol=0.01)


@pytest.mark.parametrize("options", [{"n_sampled_goal": 0}, {"her_ratio": 0.1}])
def test_batches_without_relabeled_rows_have_no_goals_to_redraw(options):
    buffer = counting_buffer(skip_trivial=True, **options)
    buffer.add_episode(counting_episode(0, 3))
    for _ in range(30):
        buffer.sample(1)


def test_redrawn_goals_keep_their_strategy_and_provenance():
    mixture = Mixture({"random": 0.5, "final": 0.25, "original": 0.25})
    buffer = counting_buffer(skip_trivial=True, goal_selection_strategy=mixture)
    for number in range(3):
        buffer.add_episode(standing_still(4 + number))
    batch = buffer.sample(5000)
    lengths = np.array([0, 4, 9, 15])
    rows = batch.strategy == "final"
    np.testing.assert_array_equal(
        batch.goal_index[rows] + 1, lengths[np.searchsorted(lengths, batch.episode[rows], side="right")]
    )
    assert set(batch.goal_index[batch.strategy == "random"]) == set(range(15))


@pytest.mark.parametrize(
    "options", [{}, {"her_ratio": 0.05}, {"n_sampled_goal": 0}], ids=["k=4", "her_ratio", "plain"]
)
def test_small_batches_may_hold_no_goal_that_could_be_trivial(options):
    buffer = filled(skip_trivial=True, **options)
    for _ in range(50):
        assert len(buffer.sample(1)) == 1
