"""Episode and Episodes: validation of the arrays, concatenation and indexing."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from her_wrappers import Episode, Episodes


def nested_episode(number, length):
    """Return an episode whose values identify episode and row."""
    states, steps = (100 * number + np.arange(n) for n in (length + 1, length))
    return Episode(
        observations={"joints": (states, states[:, None] + 0.5), "clock": states},
        actions=steps,
        rewards=steps / 2,
        terminated=number % 2 == 0,
        truncated=number % 3 == 0,
        infos={"cost": -steps},
        reset_info={"seed": np.array(number)} if number % 2 else {},
    )


def assert_same(one, other):
    np.testing.assert_equal(
        (one.observations, one.actions, one.rewards, one.infos, one.reset_info),
        (other.observations, other.actions, other.rewards, other.infos, other.reset_info),
    )
    assert (one.terminated, one.truncated) == (other.terminated, other.truncated)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.data())
def test_concatenated_episodes_can_be_split_again(lengths, data):
    listed = [nested_episode(number, length) for number, length in enumerate(lengths)]
    episodes = Episodes.of(listed)
    assert (len(episodes), episodes.num_steps) == (len(lengths), sum(lengths))
    for one, other in zip(episodes, listed, strict=True):
        assert_same(one, other)
    begin = data.draw(st.integers(0, len(lengths) - 1))
    end = data.draw(st.integers(begin + 1, len(lengths)))
    for key in (slice(begin, end), slice(None, None, -1), slice(begin, None, 2)):
        for one, other in zip(episodes[key], listed[key], strict=True):
            assert_same(one, other)
    assert_same(episodes[-1], listed[-1])
    assert Episodes.of(episodes) is episodes


def test_a_single_episode_is_not_copied():
    episode = nested_episode(1, 3)
    assert Episodes.of([episode]).observations["clock"] is episode.observations["clock"]


def test_an_index_beyond_the_last_episode_and_an_empty_slice_are_errors():
    with pytest.raises(IndexError):
        Episodes.of([nested_episode(0, 1)])[1]
    with pytest.raises(ValueError, match="a slice must contain at least one episode"):
        Episodes.of([nested_episode(0, 1)])[1:]


GOOD = {
    "observations": np.zeros(5),
    "actions": np.zeros(3),
    "rewards": np.zeros(3),
    "lengths": np.array([1, 2]),
    "terminated": np.array([True, False]),
    "truncated": np.array([False, True]),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": np.array([3, 0])}, "lengths must be a non-empty 1-D array of integers >= 1"),
        ({"lengths": np.array([1, 3])}, "rewards must have 4 rows, got shape (3,)"),
        ({"observations": np.zeros(4)}, "observations must have 5 rows"),
        ({"infos": {"cost": np.zeros(2)}}, "infos/cost must have 3 rows"),
        (
            {"terminated": np.array([1, 0])},
            "terminated must be a bool array of shape (2,), like lengths, got dtype int64 and shape (2,)",
        ),
        (
            {"reset_infos": [{}]},
            "reset_infos must have one dict for each of the 2 episodes, or be empty, got 1",
        ),
    ],
)
def test_lengths_that_do_not_fit_are_errors(changes, message):
    Episodes(**GOOD)
    with pytest.raises(ValueError, match=re.escape(message)):
        Episodes(**GOOD | changes)


def parts(*observations):
    return [Episode(tree, np.zeros(1), np.zeros(1), True, False) for tree in observations]


@pytest.mark.parametrize(
    ("episodes", "message"),
    [
        ([], "episodes must contain at least one episode, got none"),
        (parts({"a": np.zeros(2)}, {"b": np.zeros(2)}), "must be a dict with the keys ['a'], like item 0"),
        (parts(np.zeros(2), (np.zeros(2),)), "must be an array, like item 0, got a tuple of length 1"),
        (
            parts(np.zeros((2, 1)), np.zeros((2, 2))),
            "arrays of observations must have rows of the same shape",
        ),
        (parts(np.array([2**53 + 1] * 2), np.zeros(2)), "float64 cannot hold all values exactly"),
    ],
)
def test_episodes_of_different_spaces_are_errors(episodes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Episodes.of(episodes)


def test_elements_that_are_not_episodes_are_errors():
    with pytest.raises(TypeError, match="must be an Episode, got dict"):
        Episodes.of([{}])


# --- one episode ---------------------------------------------------------------------------------

PARTS = {"observations": np.zeros((3, 1)), "actions": np.zeros(2), "rewards": np.zeros(2)}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rewards", np.zeros(0), "rewards must be a non-empty 1-D array, got shape (0,)"),
        ("rewards", np.zeros((2, 1)), "rewards must be a non-empty 1-D array, got shape (2, 1)"),
        ("rewards", np.array(["1", "2"]), "rewards must hold numbers, got dtype <U1"),
        ("actions", np.zeros(3), "actions must have 2 rows, got shape (3,)"),
        ("observations", {"a": np.zeros(2)}, "observations/a must have 3 rows, got shape (2,)"),
        ("infos", {"a": np.zeros(())}, "infos/a must have 2 rows, got shape ()"),
    ],
)
def test_wrong_lengths_of_an_episode_are_errors(name, value, message):
    Episode(**PARTS, terminated=True, truncated=False)
    with pytest.raises(ValueError, match=re.escape(message)):
        Episode(**PARTS | {name: value}, terminated=True, truncated=False)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rewards", [0.0, 0.0], "rewards must be a NumPy array, got list"),
        ("observations", {"a": ([0, 0, 0],)}, "observations/a/0 must be a NumPy array"),
        ("infos", {"a": {"b": np.zeros(2)}}, "infos/a must be a NumPy array, got dict"),
        ("infos", {3: np.zeros(2)}, "the keys of infos must be strings, got 3"),
        ("infos", None, "infos must be a dict of arrays"),
        ("reset_info", {"a": None}, "reset_info/a must be a NumPy array"),
    ],
)
def test_values_that_are_not_arrays_are_errors(name, value, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        Episode(**PARTS | {name: value}, terminated=True, truncated=False)


@pytest.mark.parametrize("flag", ["no", 1, np.array([True, False]), None])
def test_flags_that_are_not_bools_are_errors(flag):
    with pytest.raises(TypeError, match="truncated must be a bool, got"):
        Episode(np.zeros((3, 1)), np.zeros(2), np.zeros(2), terminated=False, truncated=flag)
