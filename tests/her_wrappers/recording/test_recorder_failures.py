"""EpisodeRecorder: errors of environments and sinks are named, and recorded steps are kept."""

from __future__ import annotations

import pickle
import re

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from her_wrappers import EpisodeRecorder, SinkError
from tests.support.numbered_env import Numbered


def test_other_sinks_get_the_episode_if_a_sink_raises():
    served = []

    def broken(episode):
        raise OSError("disk full")

    env = EpisodeRecorder(Numbered([2]), broken, served.append)
    env.reset()
    env.step(np.zeros(2, np.float32))
    with pytest.raises(
        SinkError, match=r"on an episode of 2 steps .*broken raised OSError: disk full"
    ) as caught:
        env.step(np.zeros(2, np.float32))
    assert caught.value.episode is served[0]
    observation, _, terminated, _, _ = caught.value.result
    assert terminated
    assert observation["count"] is env.unwrapped.count
    assert isinstance(caught.value.__cause__, OSError)
    env.reset()
    env.step(np.zeros(2, np.float32))
    with pytest.raises(SinkError):
        env.close()
    assert [len(episode) for episode in served] == [2, 1]


class Faulty(Numbered):
    """An environment with a fault at step 2."""

    def __init__(self, change):
        super().__init__([9])
        self.change = change

    def step(self, action):
        result = list(super().step(action))
        if self.count[1] == 2:
            self.change(result)
        return tuple(result)


def change(position, value):
    def apply(result):
        result[position] = value

    return apply


BAD_STEPS = [
    (
        change(0, {"count": np.zeros(3), "flag": 0}),
        "observation/count at step 2 must have shape (2,), got (3,)",
    ),
    (change(0, {"count": np.zeros(2)}), "observation/flag is missing at step 2"),
    (
        change(0, {"count": np.zeros(2), "flag": 0.5}),
        "observation/flag at step 2 must have dtype int64, got float64 with values that it cannot hold; "
        "return int64 or declare float64 in the space, or use her_wrappers.adapters.CastObservation",
    ),
    (change(1, np.zeros(1)), "reward must be one number, got array([0.]) at step 1"),
    (change(4, {"thrice": 1}), "info has no 'twice' at step 1; it has ['thrice']"),
]


@pytest.mark.parametrize(("fault", "message"), BAD_STEPS)
def test_an_invalid_value_is_named_and_the_steps_before_are_kept(fault, message):
    episodes = []
    env = EpisodeRecorder(Faulty(fault), episodes.append, info_keys=["twice"])
    env.reset()
    env.step(np.zeros(2, np.float32))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        env.step(np.zeros(2, np.float32))
    assert [(len(episode), episode.truncated) for episode in episodes] == [(1, True)]
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(2, np.float32))
    env.reset()
    env.step(np.zeros(2, np.float32))


def test_a_missing_success_flag_is_named_with_the_adapter_that_adds_it():
    env = EpisodeRecorder(Numbered(), info_keys=["is_success"])
    env.reset()
    message = r"info has no 'is_success' at step 0; .*; her_wrappers\.adapters\.BooleanSuccess adds it"
    with pytest.raises(ValueError, match=message):
        env.step(np.zeros(2, np.float32))


def test_a_bad_action_never_reaches_the_environment():
    env = EpisodeRecorder(Numbered([9]))
    env.reset()
    with pytest.raises(ValueError, match=re.escape("action at step 0 must have shape (2,), got (3,)")):
        env.step(np.zeros(3))
    assert env.unwrapped.count[1] == 0
    env.step(np.zeros(2))


def test_infos_of_changing_shape_are_errors():
    env = Numbered([2])
    recorder = EpisodeRecorder(env, info_keys=["size"])
    env.info["size"] = np.zeros(1)
    recorder.reset()
    recorder.step(np.zeros(2, np.float32))
    env.info["size"] = np.zeros(2)
    message = "info 'size' must keep its shape and type within an episode, got numbers of shape (1,) and then"
    with pytest.raises(ValueError, match=re.escape(message)):
        recorder.step(np.zeros(2, np.float32))


class Growing(Numbered):
    """An environment whose observation space changes its shape at the second reset."""

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset()
        if self.episode == 1:
            self.observation_space = spaces.Dict(count=spaces.Box(0, np.inf, (3,)), flag=spaces.Discrete(2))
        return observation, info


def test_a_space_that_changes_at_reset_is_an_error():
    episodes = []
    env = EpisodeRecorder(Growing([9]), episodes.append)
    env.reset()
    env.step(np.zeros(2, np.float32))
    with pytest.raises(ValueError, match=r"the observation space changed from Dict.* to Dict.*new recorder"):
        env.reset()
    assert [len(episode) for episode in episodes] == [1]
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(2, np.float32))


class LeavingError(Exception):
    """An exception class of an environment."""


def leave(result):
    raise LeavingError


def old_api(result):
    result.pop()


FAULTS_OF_ANY_KIND = [
    (leave, LeavingError),
    (old_api, ValueError),
    (change(1, 1j), ValueError),
    (change(1, "1.5"), ValueError),
    (change(1, None), ValueError),
    (change(1, torch.ones(1, requires_grad=True)), ValueError),
    (change(0, {"count": [[0.0], [1.0, 2.0]], "flag": 0}), ValueError),
    (change(4, None), ValueError),
    (change(4, {"twice": None}), ValueError),
    (change(4, {"twice": {"a": 1}}), ValueError),
    (change(4, {"twice": [[1], [1, 2]]}), ValueError),
]


@pytest.mark.parametrize(("fault", "error"), FAULTS_OF_ANY_KIND)
def test_an_error_of_the_environment_ends_the_episode(fault, error):
    """An observation after a failed step does not follow from the last recorded action."""
    episodes = []
    env = EpisodeRecorder(Faulty(fault), episodes.append, info_keys=["twice"])
    env.reset()
    env.step(np.zeros(2, np.float32))
    with pytest.raises(error):
        env.step(np.zeros(2, np.float32))
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(2, np.float32))
    env.reset()
    env.step(np.zeros(2, np.float32))
    env.close()
    assert [episode.observations["count"][:, 1].tolist() for episode in episodes] == [[0, 1], [0, 1]]


def test_an_invalid_info_does_not_shift_the_other_infos():
    episodes = []
    env = EpisodeRecorder(
        Faulty(change(4, {"twice": 1, "thrice": 2})), episodes.append, info_keys=["thrice", "twice"]
    )
    env.unwrapped.info["thrice"] = 3
    env.reset()
    env.step(np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="info 'twice' must keep its shape"):
        env.step(np.zeros(2, np.float32))
    assert {key: len(column) for key, column in episodes[0].infos.items()} == {"thrice": 1, "twice": 1}


def test_sink_errors_name_all_sinks_and_can_be_pickled():
    def broken(episode):
        raise OSError("disk full")

    def also_broken(episode):
        raise KeyError("gone")

    env = EpisodeRecorder(Numbered([1]), broken, also_broken)
    env.reset()
    with pytest.raises(
        SinkError, match=r"broken raised OSError: disk full; .*also_broken raised KeyError"
    ) as caught:
        env.step(np.zeros(2, np.float32))
    copied = pickle.loads(pickle.dumps(caught.value))
    assert str(copied) == str(caught.value)
    assert len(copied.episode) == 1


@pytest.mark.parametrize(
    ("make_it", "error", "message"),
    [
        (
            lambda: EpisodeRecorder(gym.make_vec("CartPole-v1", num_envs=2)),
            TypeError,
            "EpisodeRecorder records a single gymnasium Env, got CartPoleVectorEnv; "
            "use VectorEpisodeRecorder",
        ),
        (
            lambda: EpisodeRecorder(Numbered(), max_episode_steps=2.5),
            ValueError,
            "max_episode_steps must be a whole number >= 1, got 2.5",
        ),
        (
            lambda: EpisodeRecorder(Numbered(), info_keys="is_success"),
            TypeError,
            "info_keys must be a list of strings, got the string 'is_success'; write ['is_success']",
        ),
        (
            lambda: EpisodeRecorder(Numbered(), info_keys=[1]),
            TypeError,
            "info_keys must be a list of strings, got [1]",
        ),
        (
            lambda: EpisodeRecorder(Numbered(), 5),
            TypeError,
            "a sink must be callable with an Episode or have add_episodes, got 5",
        ),
        (
            lambda: EpisodeRecorder(Numbered(), max_episode_steps=0),
            ValueError,
            "max_episode_steps must be a whole number >= 1, got 0",
        ),
    ],
)
def test_invalid_arguments_are_errors(make_it, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        make_it()
