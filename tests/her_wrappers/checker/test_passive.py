"""GoalEnvChecker finds faults of an environment in use, changes nothing, and warns once."""

from __future__ import annotations

import warnings
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

from her_wrappers import GoalEnvChecker
from her_wrappers.checker import GOAL_ENV_RULES
from her_wrappers.checker.passive import HELD, STRIDE, WATCHED_CLOSELY
from tests.support.specimens.broken import FAULTS
from tests.support.specimens.broken_rewards import RewardOffset
from tests.support.specimens.reach import DenseReach, Reach


def use(env, steps=200, seed=0):
    """Step an environment with random actions and resets; return all results of ``reset`` and ``step``."""
    history = [env.reset(seed=seed)]
    env.action_space.seed(seed)
    for _ in range(steps):
        history.append(env.step(env.action_space.sample()))
        if history[-1][2] or history[-1][3]:
            history.append(env.reset())
    return history


PASSIVE_FAULTS = [
    (specimen, code)
    for specimen, code in FAULTS
    if GOAL_ENV_RULES[code].passive
    and issubclass(specimen, Reach)
    # These faults show at the first reset only, or on relabeled goals only.
    and specimen.__name__
    not in {"TerminationNotImplemented", "MutatesInfo", "LogAtZero", "DividesByDistance"}
]


@pytest.mark.parametrize(
    ("specimen", "code"), PASSIVE_FAULTS, ids=[f"{s.__name__}-{c}" for s, c in PASSIVE_FAULTS]
)
def test_faults_that_need_no_experiments_are_found(specimen, code):
    env = GoalEnvChecker(specimen())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(env, steps=400)
    assert code in env.report().codes
    assert {finding.code for finding in env.report().of_severity("error")} <= {code}
    messages = [str(warning.message) for warning in caught]
    assert any(code in message for message in messages)
    assert len(messages) == len(set(messages)), "each finding warns once"


def test_actions_and_returned_values_are_not_changed():
    assert data_equivalence(use(GoalEnvChecker(Reach())), use(Reach()), exact=True)


@pytest.mark.parametrize("end", ["steps", "report", "close"])
def test_a_fault_after_the_first_steps_is_found_in_a_group_of_steps_or_at_the_end(end):
    class Late(DenseReach):
        steps = 0

        def reward(self, observation, info):
            self.steps += 1
            return super().reward(observation, info) - 3 * (self.steps > WATCHED_CLOSELY)

    env = GoalEnvChecker(Late())
    use(env, WATCHED_CLOSELY)
    assert not env.report().findings
    if end != "steps":
        use(env, STRIDE)
    until_the_end = {"steps": lambda: use(env, STRIDE * HELD), "report": env.report, "close": env.close}
    with pytest.warns(UserWarning, match="GE101 reward-mismatch"):
        until_the_end[end]()
    assert env.report().codes == ["GE101"]


def test_the_report_lists_the_rules_that_need_experiments():
    (gap,) = GoalEnvChecker(Reach()).report().not_exercised
    assert gap.reason == "GoalEnvChecker does no experiments; call check_goal_env"
    assert gap.codes == tuple(code for code, rule in GOAL_ENV_RULES.items() if not rule.passive)


class KeepsItsFirstObservation(Reach):
    """Every step overwrites the observation of reset, to which only a ``functools.partial`` refers."""

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        self.overwrite = partial(np.copyto, observation["achieved_goal"])
        return observation, info

    def step(self, action):
        returned = super().step(action)
        self.overwrite(self.position)
        return returned


def test_a_later_change_of_the_observation_of_a_reset_is_found():
    env = GoalEnvChecker(KeepsItsFirstObservation())
    with pytest.warns(UserWarning, match="GE301"):
        use(env, steps=50)


def test_findings_are_counted():
    env = GoalEnvChecker(RewardOffset())
    with pytest.warns(UserWarning, match="GE101"):
        use(env, 200)
    (finding,) = env.report().findings
    assert 190 < finding.count <= 200, "a step near the threshold may count as rounding"
    assert (env.report().steps, env.report().seed) == (200, None)
    episodes = env.report().episodes
    env.reset()
    assert env.report().episodes == episodes + 1


def test_gymnasium_can_make_the_wrapper_from_a_spec():
    env = GoalEnvChecker(gym.make("her_envs/PointReach-v0"))
    again = gym.make(env.spec)
    assert isinstance(again, GoalEnvChecker)
