"""Checks of recorded rewards and of the results of ``compute_reward``."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tests.support.buffers import filled
from tests.support.counting import compute_reward, counting_buffer, counting_episode


def test_rewards_that_differ_from_compute_reward_give_one_warning():
    buffer = counting_buffer()
    episode = counting_episode(0, 3, rewards=np.array([-1.0, -1.5, -1.0]))
    with pytest.warns(
        UserWarning, match=r"step 1 of an episode has the reward -1.5, but compute_reward returns -1"
    ):
        buffer.add_episode(episode)
    buffer.add_episode(episode)
    assert buffer.num_episodes == 2


def test_rewards_that_differ_by_rounding_give_no_warning():
    buffer = counting_buffer()
    buffer.add_episode(counting_episode(0, 3, rewards=np.array([-1.0, -1.00001, -1.0])))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda a, d, i: compute_reward(a, d, i)[:, None],
            r"must return numbers of shape \(\d+,\) for \d+ steps",
        ),
        (lambda a, d, i: -1.0, r"got float64 of shape \(\)"),
        (lambda a, d, i: ["no"] * len(a), r"got <U2 of shape"),
    ],
)
def test_a_wrong_result_of_a_reward_function_is_an_error_before_anything_is_stored(function, message):
    buffer = counting_buffer(compute_reward=function)
    with pytest.raises(ValueError, match=message):
        buffer.add_episode(counting_episode(0, 3))
    assert len(buffer) == 0


def test_a_reward_function_cannot_write_to_what_is_stored():
    def subtracting(achieved, desired, info):
        achieved -= desired
        return -abs(achieved).sum(-1)

    buffer = counting_buffer(compute_reward=subtracting)
    with pytest.raises(ValueError, match="read-only"):
        buffer.add_episode(counting_episode(0, 3))


def test_rewards_that_are_not_finite_are_an_error():
    buffer = counting_buffer(compute_reward=lambda a, d, i: np.where(a[:, 1] == 2, np.nan, -1.0))
    with pytest.raises(ValueError, match="compute_reward must return finite numbers, got nan at row 1"):
        buffer.add_episode(counting_episode(0, 3))


def test_a_warning_turned_into_an_error_is_raised_once():
    buffer, episode = counting_buffer(), counting_episode(0, 3, rewards=np.full(3, -2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="has the reward -2"):
            buffer.add_episode(episode)
        buffer.add_episode(episode)
    assert buffer.num_episodes == 1


def test_a_reward_function_that_fails_while_sampling_leaves_the_buffer_usable():
    broken = False

    def reward(achieved, desired, info):
        if broken:
            raise ZeroDivisionError
        return compute_reward(achieved, desired, info)

    buffer = filled(compute_reward=reward)
    broken = True
    with pytest.raises(ZeroDivisionError):
        buffer.sample(32)
    broken = False
    assert len(buffer.sample(32)) == 32


def test_large_rewards_are_finite_rewards():
    buffer = counting_buffer(compute_reward=lambda a, d, i: np.full(len(a), 1e25), termination="keep")
    buffer.add_episode(counting_episode(0, 3, rewards=np.full(3, 1e25)))
    assert (buffer.sample(50).rewards == np.float32(1e25)).all()
