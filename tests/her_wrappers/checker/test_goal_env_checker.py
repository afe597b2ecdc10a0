"""GoalEnvChecker finds faults of an environment in use, changes nothing, and warns once."""

import warnings

import gymnasium as gym
import pytest
from gymnasium import wrappers
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import SyncVectorEnv

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers import EpisodeRecorder, GoalEnvChecker
from her_wrappers.checker import GOAL_ENV_RULES, goal_env_checker
from her_wrappers.checker.goal_env_checker import STRIDE
from tests.support.specimens.broken import FAULTS
from tests.support.specimens.broken_episodes import ReusesArrays, ReusesDict, ReusesInfo
from tests.support.specimens.broken_rewards import RewardOffset
from tests.support.specimens.reach import DenseReach, Reach


def use(env, steps=100, on_return=lambda observation, info: None):
    """Step an environment with random actions and resets; return all results of ``reset`` and ``step``.

    ``on_return`` may change the returned observations and infos.
    """
    env.action_space.seed(0)
    history = [env.reset(seed=0)]
    on_return(*history[0])
    for _ in range(steps):
        history.append(env.step(env.action_space.sample()))
        on_return(history[-1][0], history[-1][-1])
        if (history[-1][2] or history[-1][3]) and not isinstance(env, wrappers.Autoreset):
            history.append(env.reset())
            on_return(*history[-1])
    return history


PASSIVE_FAULTS = [
    (specimen, code)
    for specimen, code in FAULTS
    if GOAL_ENV_RULES[code].passive
    and issubclass(specimen, Reach)
    # These faults show at the first reset only, on relabeled goals only, or in several episodes.
    and specimen.__name__
    not in {"TerminationNotImplemented", "MutatesInfo", "LogAtZero", "TerminatesBeforeSuccess"}
]


@pytest.mark.parametrize(
    ("specimen", "code"), PASSIVE_FAULTS, ids=[f"{s.__name__}-{c}" for s, c in PASSIVE_FAULTS]
)
def test_faults_that_need_no_experiments_are_found(specimen, code):
    env = GoalEnvChecker(specimen())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(env, steps=40)
        if code not in env.report().codes:
            use(env, steps=160)
    assert code in env.report().codes
    assert {finding.code for finding in env.report().of_severity("error")} <= {code}
    messages = [str(warning.message) for warning in caught]
    assert any(code in message for message in messages)
    assert len(messages) == len(set(messages)), "each finding warns once"


def test_actions_and_returned_values_are_not_changed():
    assert data_equivalence(use(GoalEnvChecker(Reach())), use(Reach()), exact=True)


WATCHED_CLOSELY = 60


@pytest.fixture
def few_first_steps(monkeypatch):
    """Check only the first 60 steps closely, to reach the later steps sooner."""
    monkeypatch.setattr(goal_env_checker, "WATCHED_CLOSELY", WATCHED_CLOSELY)


class Late(DenseReach):
    steps = 0

    def reward(self, observation, info):
        self.steps += 1
        return super().reward(observation, info) - 3 * (self.steps > WATCHED_CLOSELY)


@pytest.mark.usefixtures("few_first_steps")
def test_a_fault_after_the_first_steps_is_found():
    env = GoalEnvChecker(Late())
    use(env, WATCHED_CLOSELY)
    assert not env.report().findings
    with pytest.warns(UserWarning, match="GE101 reward-mismatch"):
        use(env, STRIDE)
    assert env.report().codes == ["GE101"]


def test_findings_are_counted():
    env = GoalEnvChecker(RewardOffset())
    with pytest.warns(UserWarning, match="GE101"):
        use(env, 100)
    (finding,) = env.report().findings
    assert 90 < finding.count <= 100, "a step near the threshold may count as rounding"
    assert (env.report().steps, env.report().seed) == (100, None)
    episodes = env.report().episodes
    env.reset()
    assert env.report().episodes == episodes + 1


def test_gymnasium_can_make_the_wrapper_from_a_spec():
    env = GoalEnvChecker(gym.make("her_envs/PointReach-v0"))
    assert isinstance(gym.make(env.spec), GoalEnvChecker)


def annotates_info(observation, info):
    info["seen"] = True


def relabels(observation, info):
    observation["desired_goal"][:] = observation["achieved_goal"]


@pytest.mark.usefixtures("few_first_steps")
@pytest.mark.parametrize("change", [annotates_info, relabels])
def test_changes_by_the_receiver_are_not_findings(change):
    env = GoalEnvChecker(Reach())
    use(env, WATCHED_CLOSELY + 2 * STRIDE, on_return=change)
    assert env.report().findings == ()


@pytest.mark.parametrize("specimen", [ReusesDict, ReusesInfo, ReusesArrays])
def test_changes_by_the_environment_are_found_if_the_receiver_changes_other_values(specimen):
    env = GoalEnvChecker(specimen())
    with warnings.catch_warnings(action="ignore"):
        use(env, 30, on_return=annotates_info)
    errors = env.report().of_severity("error")
    assert {finding.code for finding in errors} == {"GE301"}
    assert "seen" not in {finding.subject.split()[-1] for finding in errors}


@pytest.mark.parametrize(
    "wrapper", [wrappers.RecordEpisodeStatistics, wrappers.Autoreset, EpisodeRecorder, GoalEnvChecker]
)
def test_wrappers_outside_the_checker_give_no_finding(wrapper):
    """`test_corpus.py` has wrappers inside."""
    checker = GoalEnvChecker(Reach())
    with warnings.catch_warnings(action="error"):
        use(wrapper(checker), 50)
    assert checker.report().findings == ()


def test_a_vector_environment_is_rejected_with_the_call_that_works():
    with pytest.raises(TypeError, match="env must be a single environment, got SyncVectorEnv; call check_"):
        GoalEnvChecker(SyncVectorEnv([Reach]))
