"""The checker reports each planted fault by its own rule, and reports nothing for correct environments."""

import warnings

import gymnasium as gym
import pytest

from her_wrappers import GoalEnvChecker
from her_wrappers.checker import GOAL_ENV_RULES, check_goal_env
from tests.support.specimens.broken import FAULTS
from tests.support.specimens.correct import CORRECT
from tests.support.specimens.neighbors import INSTANCES, NEIGHBORS
from tests.support.specimens.unusual import UNUSUAL

ALL = CORRECT | UNUSUAL | NEIGHBORS
MAX_STEPS = 250
NEED_MANY_STEPS = ("GE101", "GE110", "GE118", "GE124", "GE20", "GE21", "GE301", "GE306", "GE6")
"""Rules of which some faults show only in several episodes; 100 steps are enough for the others."""


def assert_found_alone(specimen, code, max_steps=MAX_STEPS, seed=0):
    report = check_goal_env(specimen, max_steps=max_steps, seed=seed)
    errors = {finding.code for finding in report.of_severity("error")}
    assert code in report.codes, report.text()
    assert errors <= {code}, report.text()


def assert_silent(factory, seed=0):
    report = check_goal_env(factory, max_steps=100, seed=seed)
    assert not report.of_severity("error", "warning"), report.text()


names = [f"{specimen.__name__}-{code}" for specimen, code in FAULTS]


@pytest.mark.parametrize(("specimen", "code"), FAULTS, ids=names)
def test_each_fault_is_reported_by_its_own_rule(specimen, code):
    assert_found_alone(specimen, code, MAX_STEPS if code.startswith(NEED_MANY_STEPS) else 100)


@pytest.mark.parametrize("name", ALL)
def test_a_correct_environment_gets_neither_errors_nor_warnings(name):
    assert_silent(ALL[name])
    env = ALL[name]()
    if isinstance(env, gym.vector.VectorEnv):
        return
    resets_itself = isinstance(env, gym.wrappers.Autoreset)
    env = GoalEnvChecker(env)
    with warnings.catch_warnings(action="error"):
        env.action_space.seed(0)
        env.reset(seed=0)
        for _ in range(30):
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            if (terminated or truncated) and not resets_itself:
                env.reset()
    assert not env.report().findings


@pytest.mark.parametrize("make", INSTANCES)
def test_a_correct_environment_whose_copies_do_not_work_gets_no_finding(make):
    """A copy that disturbs the original, or raises, is not taken for a fault of the environment."""
    assert not check_goal_env(make(), max_steps=100).findings


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(1, 30))
def test_findings_do_not_depend_on_the_seed(seed):
    for specimen, code in FAULTS:
        assert_found_alone(specimen, code, seed=seed)
    for factory in (CORRECT | (UNUSUAL if seed < 10 else {})).values():
        assert_silent(factory, seed)


def test_every_rule_has_a_faulty_environment_and_texts():
    assert {code for _, code in FAULTS} == set(GOAL_ENV_RULES)
    hidden = {code for chain in GOAL_ENV_RULES._chains for family in chain for code in family}
    assert hidden <= set(GOAL_ENV_RULES)
    assert all(rule.meaning and rule.wrong != rule.right for rule in GOAL_ENV_RULES.values())
