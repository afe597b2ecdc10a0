"""Episode and Episodes: validation of the arrays, concatenation and indexing."""

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


def test_a_single_episode_is_not_copied_and_other_indices_are_errors():
    episode = nested_episode(1, 3)
    episodes = Episodes.of([episode])
    assert episodes.observations["clock"] is episode.observations["clock"]
    with pytest.raises(IndexError):
        episodes[1]
    with pytest.raises(ValueError, match="a slice must contain at least one episode"):
        episodes[1:]


GOOD = {
    "observations": np.zeros(5),
    "actions": np.zeros(3),
    "rewards": np.zeros(3),
    "lengths": np.array([1, 2]),
    "terminated": np.array([True, False]),
    "truncated": np.array([False, True]),
}


MISTAKES = [
    ({"lengths": np.array([3, 0])}, "lengths"),
    ({"lengths": np.array([1, 3])}, "rewards must have 4 rows"),
    ({"observations": np.zeros(4)}, "observations must have 5 rows"),
    ({"infos": {"cost": np.zeros(2)}}, "infos/cost must have 3 rows"),
    ({"terminated": np.array([1, 0])}, "terminated"),
    ({"reset_infos": [{}]}, "reset_infos"),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_lengths_that_do_not_fit_are_errors(changes, message):
    Episodes(**GOOD)
    with pytest.raises(ValueError, match=f"^{message}"):
        Episodes(**GOOD | changes)


def parts(*observations):
    return [Episode(tree, np.zeros(1), np.zeros(1), True, False) for tree in observations]


DIFFERENT = [
    ([], "at least one episode"),
    (parts({"a": np.zeros(2)}, {"b": np.zeros(2)}), "like item 0"),
    (parts(np.zeros(2), (np.zeros(2),)), "like item 0"),
    (parts(np.zeros((2, 1)), np.zeros((2, 2))), "rows of the same shape"),
    (parts(np.array([2**53 + 1] * 2), np.zeros(2)), "float64 cannot hold all values exactly"),
]


@pytest.mark.parametrize(("episodes", "message"), DIFFERENT)
def test_episodes_of_different_spaces_are_errors(episodes, message):
    with pytest.raises(ValueError, match=message):
        Episodes.of(episodes)
    with pytest.raises(TypeError, match="must be an Episode, got dict"):
        Episodes.of([*episodes, {}])


# --- one episode ---------------------------------------------------------------------------------

PARTS = {"observations": np.zeros((3, 1)), "actions": np.zeros(2), "rewards": np.zeros(2)}


WRONG = [
    (ValueError, "rewards", np.zeros(0)),
    (ValueError, "actions", np.zeros(3)),
    (ValueError, "observations", {"a": np.zeros(2)}),
    (ValueError, "infos", {"a": np.zeros(())}),
    (TypeError, "rewards", [0.0, 0.0]),
    (TypeError, "infos", {3: np.zeros(2)}),
    (TypeError, "reset_info", {"a": None}),
    (TypeError, "truncated", 1),
]


@pytest.mark.parametrize(("error", "name", "value"), WRONG)
def test_wrong_parts_of_an_episode_are_errors(error, name, value):
    good = {**PARTS, "terminated": True, "truncated": False}
    Episode(**good)
    with pytest.raises(error, match=name):
        Episode(**good | {name: value})
