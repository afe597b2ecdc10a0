"""Correct environments with unusual properties get neither errors nor warnings, see `UNUSUAL`."""

from __future__ import annotations

import warnings

import gymnasium as gym
import pytest

from her_wrappers import GoalEnvChecker, check_goal_env
from tests.support.specimens.unusual import UNUSUAL


def assert_silent(name, *, seed, max_steps):
    report = check_goal_env(UNUSUAL[name], max_steps=max_steps, seed=seed)
    assert not report.of_severity("error", "warning"), report.text()


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_environment_gets_neither_errors_nor_warnings(name):
    assert_silent(name, seed=0, max_steps=250)


SEEDS = [
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2)),
    *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(2, 10)),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_unusual_environments_get_neither_errors_nor_warnings_in_ten_seeds(seed):
    assert len(UNUSUAL) >= 60
    for name in UNUSUAL:
        assert_silent(name, seed=seed, max_steps=400)


@pytest.mark.parametrize("name", [name for name in UNUSUAL if "vector" not in name])
def test_goal_env_checker_gives_no_warning_for_an_unusual_environment(name):
    env = GoalEnvChecker(UNUSUAL[name]())
    resets_itself = isinstance(env.env, gym.wrappers.Autoreset)
    with warnings.catch_warnings(action="error"):
        env.action_space.seed(0)
        env.reset(seed=0)
        for _ in range(100):
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            if (terminated or truncated) and not resets_itself:
                env.reset()
    assert not env.report().findings
