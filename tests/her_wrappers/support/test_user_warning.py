"""warn_user: warnings name the user's line."""

import re
import warnings

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from her_wrappers import GoalEnvChecker
from her_wrappers.checker.goal_env_checker import STRIDE
from tests.support.counting import counting_buffer, counting_episode
from tests.support.specimens.reach import DenseReach

STILL = np.zeros(2, np.float32)


class OtherReward(DenseReach):
    """An environment whose rewards differ from those of compute_reward."""

    def reward(self, observation, info):
        return super().reward(observation, info) - 3


def test_a_finding_names_the_line_that_steps_the_environment():
    env = TimeLimit(GoalEnvChecker(OtherReward()), 10**6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env.reset(seed=0)
        for _ in range(STRIDE):
            env.step(STILL)
    assert [warning.filename for warning in caught] == [__file__]


def at_its_goal():
    episode = counting_episode(0, 3, terminated=True, rewards=np.array([-1.0, -1.0, 0.0]))
    episode.observations["desired_goal"][:, 1] = 3
    return episode


def scalar_terminated(achieved_goal, desired_goal, info):
    return bool(achieved_goal[1] == desired_goal[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compute_terminated": None}, ".*an episode terminated at its goal"),
        ({"compute_terminated": scalar_terminated}, ".*accepts single goals only"),
        ({"compute_reward": lambda achieved, desired, info: np.zeros(len(achieved))}, ".*step 0 .* has the"),
    ],
)
def test_warnings_of_a_buffer_name_the_line_that_adds_or_samples(options, message):
    buffer = counting_buffer(**options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        buffer.add_episode(at_its_goal())
        buffer.sample(9)
    [warning] = caught
    assert re.match(message, str(warning.message))
    assert warning.filename == __file__
