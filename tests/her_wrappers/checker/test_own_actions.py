"""All actions of a check are valid, or the user's: no environment is blamed for actions of the checker."""

from itertools import count

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from her_wrappers import check_goal_env
from her_wrappers.diagnosis import diagnose
from her_wrappers.support.policies import PolicyError
from tests.support.specimens.masks import ActionMask, MaskInInfo, MaskMethod, Strict
from tests.support.specimens.reach import Reach


class MaskMethodFromFive(MaskMethod):
    """Actions are numbered from 5."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Discrete(4, start=5)

    def move(self, action):
        return super().move(action - 5)


class TwoActions(Strict):
    """An action of two parts, of which the mask is one array."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.MultiDiscrete([4, 3])

    def make_space(self):
        return spaces.Dict(Reach.make_space(self).spaces | {"action_mask": spaces.MultiBinary(7)})

    def observe(self):
        return Reach.observe(self) | {"action_mask": np.int8([*self.mask(), 1, 0, 1])}

    def move(self, action):
        assert action[1] != 1
        return super().move(action[0])


@pytest.mark.parametrize(
    "make", [Strict, MaskInInfo, MaskMethodFromFive, TwoActions, lambda: SyncVectorEnv([Strict] * 2)]
)
def test_masked_actions_are_never_taken(make):
    report = check_goal_env(make, max_steps=100)
    assert not report.of_severity("error"), report.text()


def test_the_doctor_respects_masks():
    assert diagnose(Strict(), max_steps=300).steps == 300


@pytest.mark.parametrize("value", [[0, 0, 0, 0], [1, 1], [0.5, 1, 1, 1], "none", [[1], [1, 1]]])
def test_values_that_are_not_masks_are_ignored(value):
    class OddMask(ActionMask):
        make_space, observe = Reach.make_space, Reach.observe

        def inform(self, observation):
            return super().inform(observation) | {"mask": value}

    assert "GE000" not in check_goal_env(OddMask, max_steps=30, select="GE000").codes


class Numbered(Reach):
    """Stores the actions of all instances."""

    taken: list = []  # noqa: RUF012 - shared by all environments

    def step(self, action):
        self.taken.append(float(action[0]))
        return super().step(action)


def test_with_a_policy_all_actions_are_those_of_the_policy():
    Numbered.taken.clear()
    numbers = count()

    def policy(observation):
        assert set(observation) == {"observation", "achieved_goal", "desired_goal"}
        return np.array([-0.5 + 1e-6 * next(numbers), 0], np.float32)

    check_goal_env(lambda: gym.wrappers.TimeLimit(Numbered(), 10), max_steps=100, policy=policy)
    assert len(Numbered.taken) > 150  # also the steps of replicas
    assert max(Numbered.taken) < -0.49


def raises(observation):
    raise KeyError("camera")


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (lambda observation: (np.zeros(2), None), "tuple of 2 values"),
        (lambda observation: None, "got None"),
        (raises, r"the policy raised KeyError: 'camera'; raised in .*test_own_actions"),
    ],
)
def test_errors_of_a_policy_are_not_findings(policy, text):
    with pytest.raises(PolicyError, match=text):
        check_goal_env(Reach, max_steps=30, policy=policy)


def test_an_error_of_a_policy_in_an_experiment_is_not_a_finding():
    calls = count()

    def policy(observation):
        return np.zeros(2) if next(calls) < 101 else None

    with pytest.raises(PolicyError) as caught:
        check_goal_env(Reach, max_steps=100, policy=policy)
    assert caught.value.report.steps == 100


class LosesAKey(Reach):
    """Faulty: the fifth observation has no key "observation", so that policies fail too."""

    def as_returned(self, observation):
        return {key: observation[key] for key in observation if key != "observation" or self.elapsed != 5}


@pytest.mark.parametrize("wrap", [lambda env: env, gym.Wrapper])
def test_the_error_of_a_policy_has_the_report_of_the_steps_before_it(wrap):
    """The fault of the environment, from which the error of the policy follows, is reported."""

    def policy(observation):
        return -observation["observation"]

    with pytest.raises(PolicyError, match="KeyError") as caught:
        check_goal_env(lambda: wrap(LosesAKey()), max_steps=100, policy=policy)
    report = caught.value.report
    assert (report.steps, "GE002" in report.codes) == (5, True)
    assert any("stopped early" in each.reason for each in report.not_exercised)


def test_a_policy_may_return_a_tuple_of_numbers():
    report = check_goal_env(Reach, max_steps=30, policy=lambda observation: (0.5, -0.5))
    assert not report.of_severity("error")
