"""Infos are recorded as columns whose dtype holds all their values."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from her_wrappers import EpisodeRecorder, VectorEpisodeRecorder
from tests.support.numbered import NEXT_STEP, SAME_STEP, vector


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


def record(scripts, keys, mode, at_reset=()):
    """Record two steps of environments with the given infos; of a single one, if ``mode`` is None."""
    episodes = []
    makers = [lambda script=script: Scripted(script, at_reset) for script in scripts]
    if mode is None:
        env, action = EpisodeRecorder(makers[-1](), episodes.append, info_keys=keys), 0
    else:
        env = VectorEpisodeRecorder(
            SyncVectorEnv(makers, autoreset_mode=mode), episodes.append, info_keys=keys
        )
        action = np.zeros(len(scripts), int)
    env.reset()
    for _ in range(2):
        env.step(action)
    return episodes


modes = pytest.mark.parametrize("mode", [None, NEXT_STEP, SAME_STEP])


@modes
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([True, False], np.bool_),
        ([0.5, 7], np.float64),
        ([0, 0.5], np.float64),
        ([np.uint8([1, 2]), np.uint8([3, 4])], np.uint8),
        ([[1, 2], [3, 4]], np.int64),
        (["hit", "missed"], np.dtype("<U6")),
    ],
)
def test_a_column_has_a_dtype_for_all_its_values(values, dtype, mode):
    for episode in record([[{"v": value} for value in values]] * 2, ["v"], mode):
        np.testing.assert_array_equal(episode.infos["v"], np.array(values))
        assert episode.infos["v"].dtype == dtype
        assert episode.reset_info == {}


@modes
def test_reset_infos_have_the_infos_of_the_reset(mode):
    for episode in record([[{"v": 1}, {"v": 2}]] * 2, ["v"], mode, at_reset={"v": 5, "other": 6}):
        assert episode.infos["v"].tolist() == [1, 2]
        assert {key: value.tolist() for key, value in episode.reset_info.items()} == {"v": 5}


@modes
@pytest.mark.parametrize("step", [0, 1])
def test_an_info_that_one_environment_lacks_is_named(step, mode):
    scripts = [[{"v": 1, "w": 0}, {"v": 2, "w": 0}] for _ in range(2)]
    del scripts[1][step]["v"]
    with pytest.raises(ValueError, match=f"info has no 'v' .*at step {step}"):
        record(scripts, ["v"], mode, at_reset={"v": 3})


def test_first_infos_can_be_sliced_and_pickled():
    class Sink(list):
        add_episodes = list.append

    batches = Sink()
    env = VectorEpisodeRecorder(vector(4, [[2]], NEXT_STEP), batches, info_keys=["place", "name"])
    env.reset()
    for _ in range(2):
        env.step(np.zeros((4, 2)))
    for episodes in (batches[0], pickle.loads(pickle.dumps(batches[0]))):
        firsts = episodes.reset_infos
        assert [first["place"].tolist() for first in firsts] == [[i, 0, 0] for i in range(4)]
        assert [first["name"].item() for first in firsts[1:3]] == ["step 0"] * 2
        assert episodes[1:3].reset_infos[0]["place"][0] == 1
        with pytest.raises(IndexError):
            firsts[4]
