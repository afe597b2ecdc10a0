"""The checker has no findings in bundled vector environments; `CORRECT` has the single ones."""

import itertools

import gymnasium as gym
import pytest

from her_envs.registration import ENTRY_POINTS
from her_wrappers import check_goal_env

MODES = ("NextStep", "SameStep", "Disabled")


def findings(env):
    """Return the findings of severity error or warning."""
    return check_goal_env(env, max_steps=300).of_severity("error", "warning")


@pytest.mark.parametrize(("env_id", "mode"), [*zip(ENTRY_POINTS, itertools.cycle(MODES))])
def test_the_checker_finds_nothing_in_vector_environments(env_id, mode):
    assert findings(gym.make_vec(env_id, num_envs=3, autoreset_mode=mode)) == []
