"""Transitions added one by one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.buffers import arrays_of, transitions
from tests.support.counting import SPACE, counting_buffer, counting_episode


def test_adding_transitions_is_adding_their_episodes():
    whole, stepwise = counting_buffer(buffer_size=300), counting_buffer(buffer_size=300)
    for number, length in enumerate([3, 1, 200, 90, 7]):  # longer than the memory allocated at first
        episode = counting_episode(number, length, terminated=number % 2 == 0)
        whole.add_episode(episode)
        for transition in transitions(episode):
            stepwise.add(*transition)
        assert len(whole) == len(stepwise)
    for one, other in zip(arrays_of(whole.sample(400)), arrays_of(stepwise.sample(400)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_open_episode_is_never_sampled():
    buffer = counting_buffer()
    *most, last = transitions(counting_episode(0, 4))
    for transition in most:
        buffer.add(*transition)
    assert not buffer.can_sample
    with pytest.raises(ValueError, match="the buffer has no complete episode"):
        buffer.sample(1)
    buffer.add(*last)
    assert len(buffer) == 4


def test_arrays_that_the_caller_reuses_are_copied():
    buffer = counting_buffer()
    reused = {key: np.zeros(2) for key in SPACE}
    for here, action, reward, there, terminated, truncated, _ in transitions(counting_episode(2, 5)):
        for key, array in reused.items():
            array[:] = there[key]
        buffer.add(here, action, reward, reused, terminated, truncated)
    for array in reused.values():
        array[:] = 77
    assert set(buffer.sample(100).next_observations["observation"][:, 0]) == {2}


@pytest.mark.parametrize("key", ["achieved_goal", "desired_goal"])
def test_a_transition_that_does_not_continue_the_episode_is_an_error(key):
    """The usual cause is a missing flag at the end of an episode."""
    buffer = counting_buffer()
    (first, second) = transitions(counting_episode(0, 2))
    buffer.add(*first)
    elsewhere = second[0] | {key: second[0][key] + 1}
    with pytest.raises(ValueError, match=f"obs must equal the previous next_obs: observation/{key} is"):
        buffer.add(elsewhere, *second[1:])
    buffer.add(*second)
    assert len(buffer) == 2


def test_an_open_episode_can_be_truncated():
    buffer = counting_buffer()
    buffer.truncate_open_episode()
    first, *_ = transitions(counting_episode(0, 3))
    buffer.add(*first)
    buffer.truncate_open_episode()
    assert len(buffer) == 1
    assert buffer.sample(10).truncations.all()
    for transition in transitions(counting_episode(1, 3)):
        buffer.add(*transition)
    assert (len(buffer), buffer.num_episodes) == (4, 2)


def test_an_open_episode_does_not_outgrow_the_buffer():
    buffer = counting_buffer(buffer_size=3)
    *most, last = transitions(counting_episode(0, 4))
    for transition in most:
        buffer.add(*transition)
    with pytest.raises(
        ValueError, match="the open episode has that length; raise buffer_size, pass truncated"
    ):
        buffer.add(*last)
    buffer.truncate_open_episode()
    assert len(buffer) == 3


@pytest.mark.parametrize(
    ("position", "value", "error"),
    [
        (0, {}, ValueError),
        (0, None, ValueError),
        (0, {"observation": "garbage"}, ValueError),
        (1, [[1.0], [1.0, 2.0]], ValueError),
        (1, np.zeros(2), ValueError),
        (2, None, ValueError),
        (2, "x", ValueError),
        (2, 1j, ValueError),
        (2, np.zeros(2), ValueError),
        (2, np.nan, ValueError),
        (2, 1e39, ValueError),
        (3, None, ValueError),
        (4, np.array([True, False]), TypeError),
        (5, "no", TypeError),
    ],
)
def test_a_bad_transition_adds_nothing_and_the_episode_continues(position, value, error):
    for bad_step in (0, 1):
        buffer, steps = counting_buffer(), list(transitions(counting_episode(0, 3)))
        for i, transition in enumerate(steps):
            if i == bad_step:
                bad = list(transition)
                bad[position] = value
                with pytest.raises(error, match=r".{20}"):
                    buffer.add(*bad)
            buffer.add(*transition)
        assert len(buffer) == 3
        assert set(buffer.sample(100).observations["observation"][:, 1]) == {0, 1, 2}
