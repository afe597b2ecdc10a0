"""Goals that were already achieved before the step are counted, and sampled once more on request."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers import HindsightReplayBuffer, Mixture
from tests.support import counting
from tests.support.buffers import FUNCTIONS, arrays_of, filled
from tests.support.counting import ACTIONS, SPACE, counting_buffer, counting_episode


def standing_still(length):
    """Return an episode whose achieved goal changes only at its last step."""
    episode = counting_episode(0, length)
    episode.observations["achieved_goal"][:-1] = 0
    return episode


def test_goals_achieved_before_the_step_are_counted_and_sampled_once_more_on_request():
    shares = []
    for skip in (False, True):
        buffer = counting_buffer(resample_achieved_goals=skip)
        buffer.add_episode(standing_still(4))
        shares.append(buffer.statistics(40_000).trivial_share)
    # After steps 0 to 3, all goals except state 4 are trivial; sampling again squares their probability.
    odds = np.array([3 / 4, 2 / 3, 1 / 2, 0])
    np.testing.assert_allclose(shares, [odds.mean(), (odds**2).mean()], atol=0.01)


@pytest.mark.parametrize("options", [{"n_sampled_goal": 0}, {"her_ratio": 0.1}])
def test_batches_without_relabeled_rows_can_be_sampled(options):
    buffer = counting_buffer(resample_achieved_goals=True, **options)
    buffer.add_episode(counting_episode(0, 3))
    for _ in range(30):
        buffer.sample(1)


def test_goals_that_are_sampled_again_keep_their_strategy_and_provenance():
    mixture = Mixture({"random": 0.5, "final": 0.25, "original": 0.25})
    buffer = counting_buffer(resample_achieved_goals=True, goal_selection_strategy=mixture)
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
def test_batches_of_one_row_can_be_sampled(options):
    buffer = filled(resample_achieved_goals=True, **options)
    for _ in range(50):
        assert len(buffer.sample(1)) == 1


def deprecated(**options):
    with pytest.warns(
        DeprecationWarning, match="skip_trivial is now called resample_achieved_goals"
    ) as caught:
        buffer = filled(skip_trivial=True, **options)
    assert [warning.filename for warning in caught] == [counting.__file__]
    return buffer


def test_the_former_name_gives_the_same_batches_and_a_warning_at_the_users_line():
    for one, other in zip(
        arrays_of(deprecated(seed=3).sample(200)),
        arrays_of(filled(resample_achieved_goals=True, seed=3).sample(200)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_load_takes_the_former_name(tmp_path):
    filled().save(tmp_path / "buffer.her")
    with pytest.warns(DeprecationWarning, match="skip_trivial") as caught:
        loaded = HindsightReplayBuffer.load(tmp_path / "buffer.her", **FUNCTIONS, skip_trivial=True)
    assert [warning.filename for warning in caught] == [__file__]
    assert (
        loaded.statistics(2000).trivial_share
        == filled(resample_achieved_goals=True).statistics(2000).trivial_share
    )


@pytest.mark.parametrize("value", [True, False])
def test_both_names_together_are_an_error(value):
    with pytest.raises(
        TypeError, match="skip_trivial is the former name of resample_achieved_goals, got both"
    ):
        HindsightReplayBuffer(SPACE, ACTIONS, **FUNCTIONS, skip_trivial=True, resample_achieved_goals=value)
