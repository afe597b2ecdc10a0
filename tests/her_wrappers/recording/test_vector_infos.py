"""Infos of vector environments are recorded as columns with a dtype."""

from __future__ import annotations

import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from her_wrappers import EpisodeRecorder, VectorEpisodeRecorder
from tests.support.numbered_vector_env import NEXT_STEP, SAME_STEP, NumberedVectorEnv


class Scripted(gym.Env):
    """An environment that returns given infos; an episode has two steps."""

    observation_space = gym.spaces.Box(0, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, infos, at_reset):
        self.infos, self.at_reset, self.count = iter(infos), at_reset, 0

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return np.zeros(1), dict(self.at_reset)

    def step(self, action):
        self.count += 1
        return np.full(1, self.count), 0.0, self.count == 2, False, next(self.infos)


def record(scripts, keys, mode=SAME_STEP, at_reset=()):
    """Record two steps of environments with the given infos."""
    episodes = []
    env = SyncVectorEnv(
        [lambda script=script: Scripted(script, at_reset) for script in scripts], autoreset_mode=mode
    )
    env = VectorEpisodeRecorder(env, episodes.append, info_keys=keys)
    env.reset()
    for _ in range(2):
        env.step(np.zeros(len(scripts), int))
    return episodes


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP], ids=lambda mode: mode.value)
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([True, False], np.bool_),
        ([np.bool_(True), np.bool_(False)], np.bool_),
        ([3, 4], np.int64),
        ([0.5, 7], np.float64),
        ([0, 0.5], np.float64),
        ([np.float32(0.5), np.float32(1)], np.float32),
        ([np.uint8([1, 2]), np.uint8([3, 4])], np.uint8),
        ([[1, 2], [3, 4]], np.int64),
        (["hit", "missed"], np.dtype("<U6")),
    ],
)
def test_a_column_has_a_dtype_for_all_its_values(values, dtype, mode):
    episodes = record([[{"v": value} for value in values]] * 2, ["v"], mode)
    assert len(episodes) == 2
    for episode in episodes:
        np.testing.assert_array_equal(episode.infos["v"], np.array(values))
        assert episode.infos["v"].dtype == dtype
        assert episode.reset_info == {}


def test_reset_infos_have_the_infos_of_the_reset():
    infos = [{"v": 1}, {"v": 2}]
    for episode in record([infos] * 2, ["v"], at_reset={"v": 5, "other": 6}):
        assert episode.infos["v"].tolist() == [1, 2]
        assert {key: value.tolist() for key, value in episode.reset_info.items()} == {"v": 5}


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP], ids=lambda mode: mode.value)
@pytest.mark.parametrize("step", [0, 1])
def test_an_info_that_one_environment_lacks_is_named(step, mode):
    scripts = [[{"v": 1, "w": 0}, {"v": 2, "w": 0}], [{"v": 1, "w": 0}, {"v": 2, "w": 0}]]
    del scripts[1][step]["v"]
    with pytest.raises(ValueError, match=f"info has no 'v' .*at step {step} of environment 1; it has "):
        record(scripts, ["v"], mode)


def test_an_info_that_only_reset_returns_is_missing_at_the_first_step():
    with pytest.raises(ValueError, match=r"info has no 'v' at step 0 of environment 0; it has \['w'\]"):
        record([[{"w": 1}] * 2], ["v"], at_reset={"v": 1})


class OnlyAtSteps(NumberedVectorEnv):
    """A vector environment that returns an info at steps, but not at resets."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)[0], {}

    def step(self, actions):
        beginning = self.flags.any(axis=0) & (self.mode is NEXT_STEP)
        *parts, infos = super().step(actions)
        there = ~beginning
        if "final_obs" in infos:
            infos["final_info"] = {"odd": infos["final_info"]["odd"]}
            there = ~infos["_final_obs"]
        infos["_odd"] = there
        if not there.any():
            del infos["odd"], infos["_odd"]
        return (*parts, infos)


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP], ids=lambda mode: mode.value)
@pytest.mark.parametrize("lengths", [[[3]], [[3, 1, 4], [2]]])
def test_an_info_can_be_missing_when_an_episode_begins(mode, lengths):
    episodes = []
    env = VectorEpisodeRecorder(OnlyAtSteps(2, lengths, mode), episodes.append, info_keys=["odd"])
    env.reset()
    for _ in range(200):
        env.step(np.zeros((2, 2)))
    for episode in episodes:
        assert episode.reset_info == {}
        np.testing.assert_array_equal(episode.infos["odd"], episode.observations["nested"]["odd"][1:])


def test_first_infos_can_be_sliced_and_pickled():
    batches = []

    class Sink:
        def add_episodes(self, episodes):
            batches.append(episodes)

    env = NumberedVectorEnv(4, [[2]], NEXT_STEP)
    env = VectorEpisodeRecorder(env, Sink(), info_keys=["place", "name"])
    env.reset()
    for _ in range(2):
        env.step(np.zeros((4, 2)))
    for episodes in (batches[0], pickle.loads(pickle.dumps(batches[0]))):
        firsts = episodes.reset_infos
        assert len(firsts) == 4
        assert [first["place"].tolist() for first in firsts] == [[i, 0, 0] for i in range(4)]
        assert [first["name"].item() for first in firsts[1:3]] == ["step 0"] * 2
        assert firsts[-1]["place"][0] == 3
        assert episodes[1:3].reset_infos[0]["place"][0] == 1
        with pytest.raises(IndexError):
            firsts[4]


class LargeAndSmall(gym.Env):
    """The info ``count`` is 2**53 + 1 after the first step, and then 0.5."""

    observation_space = gym.spaces.Dict(
        dict.fromkeys(("observation", "achieved_goal", "desired_goal"), gym.spaces.Box(0, 1, (1,)))
    )
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps += 1
        info = {"count": 2**53 + 1 if self.steps == 1 else 0.5}
        return self.observation_space.sample(), -1.0, False, self.steps == 5, info


@pytest.mark.parametrize("is_vector", [False, True])
def test_large_integer_infos_next_to_floats_are_an_error(is_vector):
    if is_vector:
        env = gym.vector.SyncVectorEnv([LargeAndSmall] * 2)
        recorder = VectorEpisodeRecorder(env, [].append, info_keys=["count"])
    else:
        recorder = EpisodeRecorder(LargeAndSmall(), [].append, info_keys=["count"])
    recorder.reset(seed=0)
    action = recorder.env.action_space.sample()
    recorder.step(action)
    with pytest.raises(ValueError, match=r"infos/count has .* and float64 does not hold all their values"):
        recorder.step(action)
