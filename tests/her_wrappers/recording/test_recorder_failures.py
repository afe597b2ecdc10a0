"""EpisodeRecorder: errors of environments and sinks are named, and recorded steps are kept."""

from __future__ import annotations

import re

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from her_wrappers import EpisodeRecorder, SinkError
from tests.support.numbered import Numbered, drive

ACTION = np.zeros(2, np.float32)


class Faulty(Numbered):
    """An environment with a fault at step 2."""

    def __init__(self, change):
        super().__init__([[9]])
        self.change = change

    def step(self, action):
        result = list(super().step(action))
        if self.place[2] == 2:
            self.change(result)
        return tuple(result)


def put(position, value):
    return lambda result: result.__setitem__(position, value)


def leave(result):
    raise ZeroDivisionError("by zero")


def put_place(value, odd=0):
    return put(0, {"place": value, "nested": {"odd": odd}})


FAULTS = [
    (leave, ZeroDivisionError, "by zero"),
    (lambda result: result.pop(), ValueError, "not enough values"),
    (put_place(np.zeros(2)), ValueError, "observation/place at step 2 must have shape (3,)"),
    (put_place([[0.0], [1.0, 2.0]]), ValueError, "observation/place at step 2"),
    (put_place(np.zeros(3), odd=0.5), ValueError, "odd at step 2 must have dtype int64"),
    (put(0, {"place": np.zeros(3)}), ValueError, "observation/nested/odd is missing at step 2"),
    (put(1, np.zeros(1)), ValueError, "reward must be one number, got array([0.]) at step 1"),
    (put(1, 1j), ValueError, "reward must be one number"),
    (put(1, torch.ones(1, requires_grad=True)), ValueError, "reward must be one number"),
    (put(4, {"odd": 1}), ValueError, "info has no 'place' at step 1; it has ['odd']"),
    (put(4, None), ValueError, "info has no 'odd' at step 1; it has None"),
    (put(4, {"odd": 1, "place": [[1], [1, 2]]}), ValueError, "info 'place' must be numbers or strings"),
    (put(4, {"odd": 1, "place": 1}), ValueError, "info 'place' must keep its shape and type"),
]


@pytest.mark.parametrize(("fault", "error", "message"), FAULTS)
def test_an_error_of_the_environment_is_named_and_the_steps_before_are_kept(fault, error, message):
    """An observation after a failed step does not follow from the last recorded action."""
    episodes = []
    env = EpisodeRecorder(Faulty(fault), episodes.append, info_keys=["odd", "place"])
    env.reset()
    env.step(ACTION)
    with pytest.raises(error, match=re.escape(message)):
        env.step(ACTION)
    assert [(len(episode), episode.truncated) for episode in episodes] == [(1, True)]
    with pytest.raises(ResetNeeded):
        env.step(ACTION)
    env.reset()
    env.step(ACTION)
    env.close()
    assert [episode.observations["place"].tolist() for episode in episodes] == [
        [[0, number, t] for t in range(2)] for number in range(2)
    ]
    assert all(len(values) == 1 for episode in episodes for values in episode.infos.values())


def test_a_missing_success_flag_is_named_with_the_wrapper_that_adds_it():
    env = EpisodeRecorder(Numbered(), info_keys=["is_success"])
    env.reset()
    with pytest.raises(ValueError, match=r"repairs\.BooleanSuccess adds it"):
        env.step(ACTION)


def test_a_bad_action_does_not_reach_the_environment_or_change_the_episode():
    episodes = []
    env = EpisodeRecorder(Numbered([[2]]), episodes.append)
    env.reset()
    for call in range(2):
        with pytest.raises(
            ValueError, match=re.escape(f"action at step {call} must have shape (2,), got (3,)")
        ):
            env.step(np.zeros(3))
        assert env.unwrapped.place[2] == call
        env.step(np.float32([call, 0]))
    assert episodes[0].actions.tolist() == [[0, 0], [1, 0]]


def test_a_space_that_changes_at_reset_is_an_error():
    episodes = []
    env = EpisodeRecorder(Numbered([[9]]), episodes.append)
    env.reset()
    env.step(ACTION)
    env.unwrapped.observation_space = spaces.Dict(place=spaces.Box(0, np.inf, (3,)))
    with pytest.raises(ValueError, match="the observation space changed"):
        env.reset()
    assert [len(episode) for episode in episodes] == [1]
    with pytest.raises(ResetNeeded):
        env.step(ACTION)


def broken(episode):
    raise OSError("disk full")


def test_other_sinks_get_the_episode_if_a_sink_raises():
    served = []
    env = EpisodeRecorder(Numbered([[2]]), broken, served.append)
    env.reset()
    env.step(ACTION)
    with pytest.raises(
        SinkError, match=r"on an episode of 2 steps broken raised OSError: disk full"
    ) as caught:
        env.step(ACTION)
    np.testing.assert_array_equal(caught.value.episode.observations["place"], served[0].observations["place"])
    observation, _, terminated, _, _ = caught.value.result
    assert terminated
    assert observation["place"] is env.unwrapped.place
    assert isinstance(caught.value.__cause__, OSError)
    env.reset()
    env.step(ACTION)
    with pytest.raises(SinkError):
        env.close()
    assert [len(episode) for episode in served] == [2, 1]


def test_a_keyboard_interrupt_is_raised_even_if_a_sink_raises():
    class Interrupted(Numbered):
        def step(self, action):
            if self.place[2] == 1:
                raise KeyboardInterrupt
            return super().step(action)

    with pytest.raises(KeyboardInterrupt) as caught:
        drive(EpisodeRecorder(Interrupted([[9]]), broken), 3)
    assert isinstance(caught.value.__cause__, SinkError)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (
            [gym.make_vec("CartPole-v1", num_envs=2)],
            {},
            TypeError,
            "got CartPoleVectorEnv; use VectorEpisode",
        ),
        ([Numbered()], {"max_episode_steps": 2.5}, ValueError, "max_episode_steps must be an integer"),
        ([Numbered()], {"max_episode_steps": 0}, ValueError, "max_episode_steps must be an integer"),
        ([Numbered()], {"info_keys": "is_success"}, TypeError, "info_keys must be a list of strings"),
        ([Numbered()], {"info_keys": [1]}, TypeError, "info_keys must be a list of strings"),
        ([Numbered(), 5], {}, TypeError, "a sink must be callable"),
    ],
)
def test_invalid_arguments_are_errors(arguments, options, error, message):
    with pytest.raises(error, match=message):
        EpisodeRecorder(*arguments, **options)
