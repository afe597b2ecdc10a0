"""Torch tensors in observations, rewards, flags, infos and actions are read as arrays."""

import warnings

import gymnasium as gym
import pytest
from gymnasium.vector import SyncVectorEnv

from her_wrappers import GoalEnvChecker, check_goal_env
from tests.support.specimens.broken_rewards import RewardScaled
from tests.support.specimens.neighbors import Tensors, tensors
from tests.support.specimens.reach import Reach

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")


def numpy_to_torch():
    return gym.wrappers.NumpyToTorch(Reach())


def vector_numpy_to_torch():
    return gym.wrappers.vector.NumpyToTorch(SyncVectorEnv([Reach] * 2))


@pytest.mark.parametrize("make", [numpy_to_torch, vector_numpy_to_torch])
def test_a_correct_environment_of_tensors_gets_neither_errors_nor_warnings(make):
    for target in (make, make()):
        report = check_goal_env(target, max_steps=60)
        assert not report.of_severity("error", "warning"), report.text()


def test_a_policy_may_return_tensors():
    report = check_goal_env(tensors, max_steps=60, policy=lambda observation: torch.zeros(2))
    assert not report.of_severity("error", "warning")


@pytest.mark.parametrize("make", [tensors, numpy_to_torch])
def test_goal_env_checker_returns_tensors_unchanged_without_warnings(make):
    env = GoalEnvChecker(make())
    with warnings.catch_warnings(action="error"):
        env.reset(seed=0)
        for _ in range(30):
            observation, *_ = env.step(torch.zeros(2))
    assert isinstance(observation["desired_goal"], torch.Tensor)
    assert not env.report().findings


class Reuses(Tensors):
    def step(self, action):
        observation, *returned = super().step(action)
        self.goal = getattr(self, "goal", observation["achieved_goal"])
        self.goal[:] = observation["achieved_goal"]
        return observation | {"achieved_goal": self.goal}, *returned


@pytest.mark.parametrize(
    ("make", "code"), [(lambda: Tensors(RewardScaled()), "GE101"), (lambda: Reuses(Reach()), "GE301")]
)
def test_faults_of_environments_of_tensors_are_found(make, code):
    assert code in check_goal_env(make, max_steps=60).codes
