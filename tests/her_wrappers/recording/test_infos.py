"""Infos are recorded as columns whose dtype holds all their values."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from tests.support.numbered import NEXT_STEP, SAME_STEP, recorder_of


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
    env = SyncVectorEnv(makers, autoreset_mode=mode) if mode else makers[-1]()
    recorder = recorder_of(env, episodes.append, info_keys=keys)
    recorder.reset()
    for _ in range(2):
        recorder.step(np.zeros(len(scripts), int) if mode else 0)
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
