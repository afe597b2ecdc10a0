"""A finding that a wrapper causes names the wrapper."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import (
    FilterObservation,
    FlattenObservation,
    RescaleAction,
    TimeLimit,
    TransformReward,
)

from her_wrappers import check_goal_env
from her_wrappers.goals.interface import OBSERVATION_KEYS
from tests.support.specimens.broken_rewards import RewardScaled
from tests.support.specimens.reach import Reach


class WidensToFloat64(gym.ObservationWrapper):
    def observation(self, observation):
        return observation | {"observation": observation["observation"].astype(np.float64)}


def shifted(env):
    return TransformReward(env, lambda reward: reward + 2)


@pytest.mark.parametrize(
    ("make", "code", "wrapper"),
    [
        (lambda: TimeLimit(shifted(TimeLimit(Reach(), 15)), 10), "GE101", "TransformReward (layer 2"),
        (lambda: TimeLimit(WidensToFloat64(Reach()), 10), "GE005", "WidensToFloat64 (layer 2"),
        (lambda: FlattenObservation(Reach()), "GE001", "FlattenObservation (layer 1"),
        (lambda: TimeLimit(RewardScaled(), 10), "GE101", ""),
    ],
)
def test_a_finding_names_the_wrapper_that_causes_it(make, code, wrapper):
    (finding,) = [each for each in check_goal_env(make, max_steps=80).findings if each.code == code]
    assert finding.caused_by == (f"{wrapper} from the outside)" if wrapper else "")


def test_wrappers_that_change_spaces_and_values_consistently_give_no_finding():
    env = FilterObservation(RescaleAction(Reach(), np.float32(0), np.float32(1)), list(OBSERVATION_KEYS))
    assert not check_goal_env(env, max_steps=100).findings
