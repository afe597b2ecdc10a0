"""Exceptions, old Gym APIs and invalid goals: GE000 names the line that raised, actions stay valid."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from her_wrappers import check_goal_env
from tests.support.specimens.broken_rewards import RewardScaled
from tests.support.specimens.broken_spaces import StepRaises, StepReturnsFourValues
from tests.support.specimens.reach import DenseReach, Reach

HERE = Path(__file__)


class Singular(Reach):
    def move(self, action):
        return np.linalg.inv(np.zeros((2, 2)))  # the line to report: deeper frames are in NumPy


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: gym.wrappers.TimeLimit(env, 10)])
def test_a_failure_names_the_innermost_line_outside_libraries(wrap, monkeypatch):
    monkeypatch.chdir(HERE.parents[1])
    (finding,) = check_goal_env(lambda: wrap(Singular()), max_steps=50).of_severity("error")
    shown = HERE.relative_to(HERE.parents[1])
    lines = HERE.read_text().split("\n")
    line = next(i for i, line in enumerate(lines, 1) if "the line to report" in line)
    place = f"raised in {shown}, line {line}"
    assert finding.message == f"step() raised LinAlgError: Singular matrix; {place}"


class ResetReturnsTheObservation(Reach):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


@pytest.mark.parametrize("env", [ResetReturnsTheObservation, StepReturnsFourValues])
def test_the_old_gym_api_gives_a_specific_hint(env):
    (finding,) = check_goal_env(lambda: gym.wrappers.TimeLimit(env(), 10), max_steps=50).of_severity("error")
    assert finding.code == "GE000"
    assert "old Gym returned" in finding.message


class BrokenGoal(DenseReach):
    """An environment that returns an invalid goal at some steps, and stores the actions."""

    def __init__(self, key, value):
        super().__init__()
        self.key, self.value, self.actions = key, value, []
        self.action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def step(self, action):
        self.actions.append(action)
        observation, *rest = super().step(action)
        return observation | ({self.key: self.value} if self.elapsed % 3 == 2 else {}), *rest


@pytest.mark.parametrize("key", ["achieved_goal", "desired_goal"])
@pytest.mark.parametrize("value", [None, np.full(2, np.nan, np.float32), np.array([None, None])])
def test_an_invalid_goal_gives_no_invalid_action(key, value):
    env = BrokenGoal(key, value)
    assert check_goal_env(env, max_steps=100).of_severity("error")
    assert len(env.actions) >= 100
    assert np.isfinite(env.actions).all()


class ScaledAndFragile(StepRaises, RewardScaled):
    pass


def test_steps_before_an_exception_are_judged():
    assert check_goal_env(ScaledAndFragile, max_steps=100).codes == ["GE000", "GE101"]


class RaisesAfterManySteps(Reach):
    steps_left = 100  # more than each replica takes in a check of 100 steps

    def step(self, action):
        self.steps_left -= 1
        if self.steps_left < 0:
            raise RuntimeError("worn out")
        return super().step(action)


def test_an_exception_after_the_run_is_a_finding():
    [found] = check_goal_env(RaisesAfterManySteps, max_steps=100).of_severity("error")
    assert (found.code, found.place) == ("GE000", "after the run")
    assert "RuntimeError: worn out" in found.message
