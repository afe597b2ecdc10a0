"""VectorEpisodeRecorder: errors are named, and recorded steps are kept."""

from __future__ import annotations

import os
import re
import signal

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.vector.async_vector_env import AsyncState

from her_wrappers import SinkError, VectorEpisodeRecorder
from tests.support.numbered_vector_env import (
    DISABLED,
    NEXT_STEP,
    SAME_STEP,
    Numbered,
    NumberedVectorEnv,
    makers,
)

SHAPES = [[9], [2], [4]]


def step(env, times=1):
    for _ in range(times):
        result = env.step(np.zeros((env.num_envs, 2), np.float32))
    return result


class Faulty(NumberedVectorEnv):
    """A vector environment with a fault at its third step."""

    def __init__(self, change=lambda result: None, mode=NEXT_STEP):
        super().__init__(3, SHAPES, mode)
        self.change, self.steps = change, 0

    def step(self, actions):
        result = list(super().step(actions))
        self.steps += 1
        if self.steps == 3:
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


def drop(*path):
    """Return a function that removes a key from the infos."""

    def change(result):
        del result[4][path[0]]

    return change


def leave(result):
    raise KeyboardInterrupt


PLACE = np.zeros((3, 3))
FAULTS = [
    (
        put(0, np.zeros((3, 2)), "place"),
        "observation/place at step 3 of environment 0 must have shape (3,), got (2,)",
    ),
    (put(0, np.zeros((2, 3)), "place"), "observation/place in the batch must have shape (3, 3), got (2, 3)"),
    (
        put(0, [[0.0] * 3, [0.0], [0.0] * 3], "place"),
        "observation/place at step 1 of environment 1 must have shape (3,), got (1,)",
    ),
    (put(0, {"place": PLACE}), "observation/nested/odd is missing in the batch"),
    (
        put(0, np.array([0, 1, 0.5]), "nested", "odd"),
        "observation/nested/odd at step 3 of environment 2 must have dtype int64, got float64 with values "
        "that it cannot hold; return int64 or declare float64 in the space, or use "
        "her_wrappers.adapters.CastObservation",
    ),
    (put(1, np.zeros((3, 1))), "rewards must be (3,) numbers, got array([[0.],\n       [0.],\n       [0.]])"),
    (put(1, ["a", "b", "c"]), "rewards must be (3,) numbers, got ['a', 'b', 'c']"),
    (put(2, np.zeros(3)), "terminations must be a bool array of shape (3,), got array([0., 0., 0.])"),
    (put(3, np.zeros(2, bool)), "truncations must be a bool array of shape (3,), got array([False, False])"),
    (drop("odd"), "info has no 'odd' at step 2 of environment 0; it has ['name', 'place']"),
    (
        put(4, np.array([True, True, False]), "_odd"),
        "info has no 'odd' at step 2 of environment 2; it has ['name', 'odd', 'place']",
    ),
    (put(4, np.ones(2, bool), "_odd"), "infos['_odd'] must be (3,) bools, got array([ True,  True])"),
    (
        put(4, np.array([1, None, 2]), "odd"),
        "info 'odd' must be numbers or strings of one shape, got None at step 0 of environment 1",
    ),
    (
        put(4, {"a": np.zeros(3)}, "odd"),
        "info 'odd' must be numbers or strings with a row for each of 3 environments, "
        "got {'a': array([0., 0., 0.])} at step 2 of environment 0",
    ),
    (
        put(4, np.zeros((3, 2)), "odd"),
        "info 'odd' must keep its shape and type, got numbers of shape () and then numbers of shape (2,) "
        "at step 2 of environment 0",
    ),
    (
        put(4, np.array(["a", "b", "c"]), "odd"),
        "info 'odd' must keep its shape and type, got numbers of shape () and then strings of shape () "
        "at step 2 of environment 0",
    ),
    (
        put(4, np.array([1, "b", 2], dtype=object), "odd"),
        "info 'odd' must be of one shape and kind in all environments, got numbers of shape () and strings "
        "of shape () at step 0 of environment 1",
    ),
    (
        put(4, [{}, {}, {}]),
        "infos must be a dict of arrays, got list; wrap the recorder",
    ),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS)
def test_an_invalid_value_is_named_and_the_steps_before_are_kept(fault, message):
    """When the fault occurs, environment 1 is in its second episode."""
    episodes = []
    env = VectorEpisodeRecorder(Faulty(fault, DISABLED), episodes.append, info_keys=["odd"])
    env.reset()
    step(env, 2)
    env.reset(options={"reset_mask": np.array([False, True, False])})
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        step(env)
    assert [(len(episode), episode.truncated) for episode in episodes] == [(2, False), (2, True), (2, True)]
    with pytest.raises(ResetNeeded):
        step(env)
    env.reset()
    step(env)


FINAL_FAULTS = [
    (
        drop("final_obs"),
        "infos have no final_obs at step 2 of environment 1, whose episode ended; environments with",
    ),
    (put(4, np.zeros(3, bool), "_final_obs"), "infos have no final_obs at step 2 of environment 1"),
    (drop("final_info"), "info has no 'odd' in final_info at step 1 of environment 1; it has []"),
    (
        put(4, np.array([None, {"place": np.zeros(2), "nested": {"odd": 0}}, None]), "final_obs"),
        "observation/place at step 2 of environment 1 must have shape (3,), got (2,)",
    ),
    (
        put(4, np.array([None, {"place": np.zeros(3)}, None]), "final_obs"),
        "observation/nested/odd is missing at step 2 of environment 1",
    ),
    (put(4, {"place": PLACE}, "final_obs"), "observation/nested/odd is missing in final_obs"),
    (put(4, []), "infos have no final_obs at step 2 of environment 1"),
]


@pytest.mark.parametrize(("fault", "message"), FINAL_FAULTS)
def test_missing_last_states_are_named(fault, message):
    episodes, env = [], Faulty(fault, SAME_STEP)
    env.steps = 1
    env = VectorEpisodeRecorder(env, episodes.append, info_keys=["odd"])
    env.reset()
    step(env)
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        step(env)
    assert [(len(episode), episode.truncated) for episode in episodes] == [(1, True)] * 3


def test_a_keyboard_interrupt_in_the_environment_loses_nothing():
    episodes = []
    env = VectorEpisodeRecorder(Faulty(leave), episodes.append)
    env.reset()
    step(env, 2)
    with pytest.raises(KeyboardInterrupt):
        step(env)
    assert [len(episode) for episode in episodes] == [2, 2, 2]


def test_a_reset_is_needed_after_an_error_at_the_begin_of_all_episodes():
    env = Faulty(leave)
    env.lengths = [[2]]
    env = VectorEpisodeRecorder(env)
    env.reset()
    step(env, 2)
    with pytest.raises(KeyboardInterrupt):
        step(env)
    with pytest.raises(ResetNeeded):
        step(env)


def test_bad_actions_never_reach_the_environments():
    env = VectorEpisodeRecorder(Faulty())
    env.reset()
    with pytest.raises(
        ValueError, match=re.escape("action at step 0 of environment 0 must have shape (2,), got")
    ):
        env.step(np.zeros((3, 1)))
    assert env.unwrapped.steps == 0
    env.step(np.zeros((3, 2)))


def test_sinks_get_interrupted_episodes_as_truncated():
    episodes = []
    env = VectorEpisodeRecorder(Faulty(), episodes.append)
    env.reset()
    env.reset()
    assert episodes == [], "an episode without a step is none"
    step(env)
    env.reset(options={"reset_mask": np.array([True, False, False])})
    step(env)
    env.reset()
    step(env)
    env.close()
    env.close()
    assert [len(episode) for episode in episodes] == [1, 2, 1, 2, 1, 1, 1]
    assert all(episode.truncated for episode in episodes)


def test_other_sinks_get_the_episodes_if_a_sink_raises():
    served = []

    class Full:
        def add_episodes(self, episodes):
            raise OSError("disk full")

    env = VectorEpisodeRecorder(Faulty(mode=SAME_STEP), Full(), served.append)
    env.reset()
    step(env)
    with pytest.raises(
        SinkError, match=r"on an episode of 2 steps .*Full.* raised OSError: disk full"
    ) as caught:
        step(env)
    assert [len(episode) for episode in caught.value.episodes] == [2]
    assert caught.value.result[2].tolist() == [False, True, False]
    step(env, 1)
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
    workers = [lambda i=i: Killed(i, [[9]], reuse=False) for i in range(3)]
    env = VectorEpisodeRecorder(AsyncVectorEnv(workers, shared_memory=shared_memory), episodes.append)
    env.reset()
    step(env, 3)
    with pytest.raises((EOFError, OSError)):
        step(env)
    assert [(len(episode), episode.truncated) for episode in episodes] == [(3, True)] * 3
    assert all(episode.observations["place"][-1, 2] == 3 for episode in episodes)
    env.unwrapped._state = AsyncState.DEFAULT  # close() would wait for the dead worker
    env.close(terminate=True)


class Growing(Faulty):
    """A vector environment whose observation space changes at a reset after a step."""

    def reset(self, *, seed=None, options=None):
        if self.steps:
            self.single_observation_space = spaces.Dict(place=spaces.Box(0, 1, (5,)))
        return super().reset(seed=seed, options=options)


def test_a_space_that_changes_at_reset_is_an_error():
    episodes = []
    env = VectorEpisodeRecorder(Growing(), episodes.append)
    env.reset()
    step(env)
    with pytest.raises(ValueError, match="the observation space changed from"):
        env.reset()
    assert [len(episode) for episode in episodes] == [1, 1, 1]
    with pytest.raises(ResetNeeded):
        step(env)


def without_mode():
    env = Faulty()
    env.metadata = {}
    return env


BAD_ARGUMENTS = [
    (
        lambda: VectorEpisodeRecorder(gym.make("CartPole-v1")),
        TypeError,
        "VectorEpisodeRecorder records a gymnasium VectorEnv, got TimeLimit; use EpisodeRecorder",
    ),
    (
        lambda: VectorEpisodeRecorder(without_mode()),
        ValueError,
        "metadata['autoreset_mode'] of Faulty(num_envs=3) must be a gymnasium.vector.AutoresetMode, "
        "got None; set env.metadata",
    ),
    (
        lambda: VectorEpisodeRecorder(Faulty(), 5),
        TypeError,
        "a sink must be callable with an Episode or have add_episodes, got 5",
    ),
    (
        lambda: VectorEpisodeRecorder(Faulty(), info_keys="odd"),
        TypeError,
        "info_keys must be a list of strings, got the string 'odd'; write ['odd']",
    ),
    (
        lambda: VectorEpisodeRecorder(Faulty(), max_episode_steps=0),
        ValueError,
        "max_episode_steps must be a whole number >= 1, got 0",
    ),
    (
        lambda: VectorEpisodeRecorder(Faulty()).reset(options={"reset_mask": [1, 0, 0]}),
        ValueError,
        "reset option 'reset_mask' must be bool of shape (3,), got [1, 0, 0]",
    ),
]


@pytest.mark.parametrize(("make_it", "error", "message"), BAD_ARGUMENTS)
def test_invalid_arguments_are_errors(make_it, error, message):
    with pytest.raises(error, match="^" + re.escape(message)):
        make_it()


def test_the_environment_stays_open_if_the_recorder_cannot_be_made():
    env = SyncVectorEnv(makers(2, SHAPES, reuse=False))
    with pytest.raises(TypeError):
        VectorEpisodeRecorder(env, 5)
    assert not env.closed
