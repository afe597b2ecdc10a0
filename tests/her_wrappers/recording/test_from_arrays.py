"""Episodes.from_arrays: flat arrays of datasets, in which flags mark where episodes end."""

import numpy as np
import pytest

from her_wrappers import Episodes
from tests.support.counting import counting_episode
from tests.support.equality import assert_same_episodes

STATES = np.array([[0.0, 0], [1, 0], [2, 0], [10, 0], [20, 0], [21, 0], [22, 0]])
"""Rows of episodes of 3, 1 and 3 states; the last one has no end."""

FLAGS = {"terminals": [0, 0, 1, 0, 0, 0, 0], "timeouts": [False, False, False, True, False, False, False]}


def read(**changes):
    arrays = {"observations": STATES, "actions": np.arange(7), "rewards": np.arange(7.0), **FLAGS}
    return Episodes.from_arrays(**arrays | {"achieved_goal": lambda rows: rows[:, :1]} | changes)


def test_the_last_row_of_an_episode_is_its_last_state():
    with pytest.warns(UserWarning, match="1 of 3 episodes are left out, since they have one state"):
        episodes = read()
    assert [each.observations["observation"][:, 0].tolist() for each in episodes] == [[0, 1, 2], [20, 21, 22]]
    assert [each.actions.tolist() for each in episodes] == [[0, 1], [4, 5]]
    assert [each.rewards.tolist() for each in episodes] == [[0, 1], [4, 5]]
    assert [each.observations["desired_goal"][:, 0].tolist() for each in episodes] == [[2] * 3, [22] * 3]
    assert not episodes.terminated.any()
    assert episodes.truncated.all()


def test_with_next_observations_every_row_is_a_step():
    episodes = read(next_observations=STATES + np.array([1, 0]), desired_goal=np.arange(7.0)[:, None])
    states = [each.observations["observation"][:, 0].tolist() for each in episodes]
    assert states == [[0, 1, 2, 3], [10, 11], [20, 21, 22, 23]]
    assert episodes.actions.tolist() == list(range(7))
    assert (episodes.terminated.tolist(), episodes.truncated.tolist()) == (
        [True, False, False],
        [False, True, True],
    )
    goals = [each.observations["desired_goal"][:, 0].tolist() for each in episodes]
    assert goals == [[0, 1, 2, 2], [3, 3], [4, 5, 6, 6]]


def test_rewards_are_computed_from_the_goals_after_the_steps():
    def compute_reward(achieved, desired, info):
        assert len(info) == len(achieved)
        return -np.abs(achieved - desired)[:, 0]

    episodes = read(rewards=compute_reward, desired_goal=[2.0], terminals=None, timeouts=None)
    assert episodes.rewards.tolist() == [-1, 0, -8, -18, -19, -20]


def test_observations_may_be_dicts_of_goals():
    recorded = [counting_episode(number, 4) for number in range(3)]
    whole = Episodes.of(recorded)
    states = {key: rows.reshape(3, 5, -1) for key, rows in whole.observations.items()}
    before, after = (
        {key: rows[:, part].reshape(12, -1) for key, rows in states.items()}
        for part in (slice(4), slice(1, 5))
    )
    timeouts = np.arange(12) % 4 == 3
    episodes = Episodes.from_arrays(
        before, whole.actions, whole.rewards, timeouts=timeouts, next_observations=after
    )
    assert_same_episodes(episodes, recorded)


MISTAKES = [
    ({"rewards": np.zeros(6)}, r"rewards must have shape \(7,\), got \(6,\)"),
    ({"observations": STATES[:5]}, "observations must have 7 rows"),
    ({"terminals": np.arange(7)}, "terminals must have dtype bool"),
    ({"timeouts": np.zeros(6)}, r"timeouts must have shape \(7,\), got \(6,\)"),
    ({"next_observations": STATES + 2}, r"next_observations\[0\] differs from observations\[1\]"),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_arrays_that_do_not_fit_are_an_error(changes, message):
    with pytest.raises(ValueError, match=message):
        read(**changes)
