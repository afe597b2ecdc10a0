"""VectorEpisodeRecorder: errors are named, and recorded steps are kept."""

from __future__ import annotations

import os
import re
import signal

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv
from gymnasium.vector.async_vector_env import AsyncState

from her_wrappers import SinkError, VectorEpisodeRecorder
from tests.support.numbered import DISABLED, NEXT_STEP, SAME_STEP, Numbered, makers, vector

LENGTHS = [[9], [2], [4]]


def step(env, times=1):
    for _ in range(times):
        result = env.step(np.zeros((env.num_envs, 2), np.float32))
    return result


class Faulty(gym.vector.VectorWrapper):
    """A vector environment with a fault at one of its steps."""

    def __init__(self, change=lambda result: None, mode=NEXT_STEP, at=3, lengths=LENGTHS):
        super().__init__(vector(3, lengths, mode))
        self.change, self.at, self.steps = change, at, 0

    def step(self, actions):
        result = list(self.env.step(actions))
        self.steps += 1
        if self.steps == self.at:
            self.change(result)
        return tuple(result)


def put(position, value, *path):
    """Return a function that replaces a part of the values of ``step``."""

    def change(result):
        target, key = result, position
        for step in path:
            target, key = target[key], step
        target[key] = value

    return change


def drop(key):
    """Return a function that removes a key from the infos."""
    return lambda result: result[4].pop(key)


def leave(result):
    raise KeyboardInterrupt


PLACE = np.zeros((3, 3))
FAULTS = [
    (put(0, np.zeros((3, 2)), "place"), "place at step 3 of environment 0 must have shape (3,), got (2,)"),
    (put(0, np.zeros((2, 3)), "place"), "place in the batch must have shape (3, 3), got (2, 3)"),
    (put(0, [[0.0] * 3, [0.0], [0.0] * 3], "place"), "place at step 1 of environment 1 must have shape"),
    (put(0, {"place": PLACE}), "observation/nested/odd is missing in the batch"),
    (put(1, ["a", "b", "c"]), "rewards must be (3,) numbers"),
    (put(2, np.zeros(3)), "terminations must be (3,) bools"),
    (put(3, np.zeros(2, bool)), "truncations must be (3,) bools"),
    (drop("odd"), "info has no 'odd' at step 2 of environment 0"),
    (put(4, np.array([True, True, False]), "_odd"), "info has no 'odd' at step 2 of environment 2"),
    (put(4, np.ones(2, bool), "_odd"), "infos['_odd'] must be (3,) bools"),
    (put(4, np.array([1, None, 2]), "odd"), "info 'odd' must be numbers or strings of one shape"),
    (put(4, {"a": np.zeros(3)}, "odd"), "info 'odd' must be numbers or strings with a row for each"),
    (put(4, np.zeros((3, 2)), "odd"), "info 'odd' must keep its shape and type"),
    (put(4, np.array([1, "a", [2]], object), "odd"), "info 'odd' must be of one shape and kind"),
    (put(4, [{}, {}, {}]), "infos must be a dict of arrays, got list; wrap the recorder"),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS)
def test_an_invalid_value_is_named_and_the_steps_before_are_kept(fault, message):
    """When the fault occurs, environment 1 is in its second episode."""
    episodes = []
    env = VectorEpisodeRecorder(Faulty(fault, DISABLED), episodes.append, info_keys=["odd"])
    env.reset()
    step(env, 2)
    env.reset(options={"reset_mask": np.array([False, True, False])})
    with pytest.raises(ValueError, match=re.escape(message)):
        step(env)
    assert [(len(episode), episode.truncated) for episode in episodes] == [(2, False), (2, True), (2, True)]
    with pytest.raises(ResetNeeded):
        step(env)
    env.reset()
    step(env)


def final(**observation):
    return put(4, np.array([None, observation, None]), "final_obs")


FINAL_FAULTS = [
    (drop("final_obs"), "infos have no final_obs at step 2 of environment 1, whose episode ended"),
    (put(4, np.zeros(3, bool), "_final_obs"), "infos have no final_obs at step 2 of environment 1"),
    (put(4, []), "infos have no final_obs at step 2 of environment 1"),
    (drop("final_info"), "info has no 'odd' in final_info at step 1 of environment 1"),
    (final(place=np.zeros(2), nested={"odd": 0}), "place at step 2 of environment 1 must have shape"),
    (final(place=np.zeros(3)), "odd is missing at step 2 of environment 1"),
    (put(4, {"place": PLACE}, "final_obs"), "observation/nested/odd is missing in final_obs"),
]


@pytest.mark.parametrize(("fault", "message"), FINAL_FAULTS)
def test_missing_last_states_are_named(fault, message):
    episodes = []
    env = VectorEpisodeRecorder(Faulty(fault, SAME_STEP, at=2), episodes.append, info_keys=["odd"])
    env.reset()
    step(env)
    with pytest.raises(ValueError, match=re.escape(message)):
        step(env)
    assert [(len(episode), episode.truncated) for episode in episodes] == [(1, True)] * 3


@pytest.mark.parametrize(("lengths", "expected"), [(LENGTHS, [2, 2, 2]), ([[2]], [2, 2, 2])])
def test_an_interrupt_in_the_environment_loses_no_step_and_a_reset_is_needed(lengths, expected):
    """With episodes of two steps, the interrupt comes at the begin of all next episodes."""
    episodes = []
    env = VectorEpisodeRecorder(Faulty(leave, lengths=lengths), episodes.append)
    env.reset()
    step(env, 2)
    with pytest.raises(KeyboardInterrupt):
        step(env)
    assert [len(episode) for episode in episodes] == expected
    with pytest.raises(ResetNeeded):
        step(env)


def test_bad_actions_and_reset_masks_do_not_reach_the_environments():
    env = VectorEpisodeRecorder(Faulty())
    env.reset()
    with pytest.raises(ValueError, match=r"'reset_mask' must be bool of shape \(3,\)"):
        env.reset(options={"reset_mask": [1, 0, 0]})
    with pytest.raises(ValueError, match=r"action at step 0 of environment 0 must have shape \(2,\)"):
        env.step(np.zeros((3, 1)))
    assert env.env.steps == 0
    env.step(np.zeros((3, 2)))


def test_other_sinks_get_the_episodes_if_a_sink_raises():
    served = []

    class Full:
        def add_episodes(self, episodes):
            raise OSError("disk full")

    env = VectorEpisodeRecorder(Faulty(mode=SAME_STEP), Full(), served.append)
    env.reset()
    step(env)
    with pytest.raises(SinkError, match=r"on an episode of 2 steps .*Full.* raised OSError") as caught:
        step(env)
    assert [len(episode) for episode in caught.value.episodes] == [2]
    assert caught.value.result[2].tolist() == [False, True, False]
    step(env)
    with pytest.raises(SinkError, match="on 2 episodes, the first of 2 steps"):
        step(env)
    with pytest.raises(SinkError):
        env.reset()
    assert [len(episode) for episode in served] == [2, 2, 4, 4]


def test_environments_that_ended_must_be_reset_before_the_next_step():
    env = VectorEpisodeRecorder(Faulty(mode=DISABLED))
    with pytest.raises(ResetNeeded, match=r"in the environments \[0, 1, 2\]; call reset"):
        step(env)
    env.reset()
    step(env, 2)
    with pytest.raises(ResetNeeded, match=r"in the environments \[1\]; call reset"):
        step(env)
    env.reset(options={"reset_mask": np.array([False, True, False])})
    step(env)


class Killed(Numbered):
    """An environment that kills its process at the fourth step if its number is 1."""

    def step(self, action):
        if self.number == 1 and self.place[2] == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


@pytest.mark.parametrize("shared_memory", [True, False])
def test_episodes_of_a_killed_worker_are_kept(shared_memory):
    episodes = []
    envs = AsyncVectorEnv(makers(3, [[9]], kind=Killed), shared_memory=shared_memory)
    env = VectorEpisodeRecorder(envs, episodes.append)
    env.reset()
    step(env, 3)
    with pytest.raises((EOFError, OSError)):
        step(env)
    assert [(len(episode), episode.truncated) for episode in episodes] == [(3, True)] * 3
    assert all(episode.observations["place"][-1, 2] == 3 for episode in episodes)
    envs._state = AsyncState.DEFAULT  # close() would wait for the dead worker
    env.close(terminate=True)


class WithoutMode(gym.vector.VectorWrapper):
    metadata = {}  # noqa: RUF012 - as VectorEnv declares it


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ([gym.make("CartPole-v1")], {}, TypeError, "got TimeLimit; use EpisodeRecorder"),
        ([WithoutMode(Faulty())], {}, ValueError, "must be a gymnasium.vector.AutoresetMode, got None"),
        ([Faulty(), 5], {}, TypeError, "a sink must be callable"),
        ([Faulty()], {"info_keys": "odd"}, TypeError, "info_keys must be a list of strings"),
        ([Faulty()], {"max_episode_steps": 0}, ValueError, "max_episode_steps must be an integer"),
    ],
)
def test_invalid_arguments_are_errors(arguments, options, error, message):
    with pytest.raises(error, match=message):
        VectorEpisodeRecorder(*arguments, **options)
    assert not getattr(arguments[0].unwrapped, "closed", False)
