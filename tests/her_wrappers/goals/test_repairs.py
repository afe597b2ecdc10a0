"""Repair wrappers: each fixes the findings that name it."""

import warnings
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers import check_goal_env
from her_wrappers.checker import GOAL_ENV_RULES
from her_wrappers.repairs import AsGoalEnv, BooleanSuccess, CastObservation, CopyObservation
from tests.support.specimens.broken import FAULTS
from tests.support.specimens.reach import Reach

REPAIRS = {
    "CopyObservation": CopyObservation,
    "CastObservation": CastObservation,
    "BooleanSuccess": BooleanSuccess,
    "AsGoalEnv": partial(
        AsGoalEnv,
        achieved_goal=lambda observation, info: _position(observation),
        sample_goal=lambda observation, info, rng: rng.uniform(-1, 1, 2),
        success=lambda achieved, desired: np.linalg.norm(achieved - desired, axis=-1) < 0.3,
        goal_space=spaces.Box(-1, 1, (2,), np.float32),
    ),
}


def _position(observation):
    return observation["observation"] if isinstance(observation, dict) else observation[:2]


REPAIR_OF = {
    "FlatObservation": "AsGoalEnv",
    "NoComputeReward": "AsGoalEnv",
    "Float64InFloat32Space": "CastObservation",
    "GoalAsList": "CastObservation",
    "NoFlag": "BooleanSuccess",
    "FlagIsFloat": "BooleanSuccess",
    "NoFlagAtReset": "BooleanSuccess",
    "ReusesArrays": "CopyObservation",
    "ReusesInfo": "CopyObservation",
    "ReturnsItsGoal": "CopyObservation",
    "ChangesTheAction": "CopyObservation",
}
"""Repair wrapper that fixes each broken specimen."""

SPECIMENS = {specimen.__name__: (specimen, code) for specimen, code in FAULTS}


@pytest.mark.parametrize(("name", "repair"), REPAIR_OF.items())
def test_the_wrapper_that_a_finding_names_fixes_it(name, repair):
    specimen, code = SPECIMENS[name]
    options = {"max_steps": 60, "select": [code]}
    assert repair in {finding.repair for finding in check_goal_env(specimen, **options).findings}
    assert not check_goal_env(lambda: REPAIRS[repair](specimen()), **options).findings


def test_every_wrapper_named_by_a_rule_is_tested():
    assert {rule.repair for rule in GOAL_ENV_RULES.values()} - {""} == set(REPAIRS) == set(REPAIR_OF.values())


def make_car(**options):
    options = {
        "achieved_goal": lambda observation, info: observation[:1],
        "sample_goal": lambda observation, info, rng: rng.uniform(-1, 0.5, 1),
        "success": lambda achieved, desired: np.abs(achieved - desired).max(-1) < 0.1,
        "goal_space": spaces.Box(-1.2, 0.6, (1,), np.float32),
    } | options
    return AsGoalEnv(gym.make("MountainCarContinuous-v0"), **options)


def test_a_plain_environment_becomes_a_correct_goal_environment():
    report = check_goal_env(partial(make_car, terminate_on_success=True), max_steps=1500)
    assert not report.of_severity("error", "warning"), report.text()
    assert report.successes


def test_reset_options_can_set_the_goal_and_goals_of_another_shape_are_errors():
    observation, info = make_car().reset(seed=0, options={"goal": [-0.5]})
    assert observation["desired_goal"].tolist() == [-0.5]
    assert info["is_success"] == bool(abs(observation["achieved_goal"][0] + 0.5) < 0.1)
    with pytest.raises(ValueError, match=r"goals must have the shape \(.*\) of goal_space"):
        make_car(achieved_goal=lambda observation, info: observation).reset(seed=0)


def test_boolean_success_needs_a_goal_environment_and_uses_the_function_of_the_user():
    with pytest.raises(ValueError, match="observation space must be a Dict"):
        BooleanSuccess(gym.make("CartPole-v1"))
    env = BooleanSuccess(Reach(), success=lambda achieved, desired: True)
    assert env.reset(seed=0)[1] == {"is_success": True}


@pytest.mark.parametrize("repair", [CopyObservation, CastObservation, BooleanSuccess])
def test_a_correct_environment_is_not_changed_and_can_be_made_from_its_spec(repair):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not check_goal_env(lambda: repair(Reach()), max_steps=100).findings
    assert data_equivalence(repair(Reach()).reset(seed=1), Reach().reset(seed=1), exact=True)
    wrapped = repair(gym.make("her_envs/PointReach-v0"))
    assert isinstance(gym.make(wrapped.spec), repair)
