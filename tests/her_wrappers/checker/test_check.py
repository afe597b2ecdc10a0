"""check_goal_env: budgets, seeds, policies, reset options, selected rules, and exceptions."""

import copy
import warnings

import gymnasium as gym
import numpy as np
import pytest

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers import check_goal_env
from her_wrappers.checker import rollout
from tests.support.checker import Uncopyable, gaps
from tests.support.specimens.broken_rewards import OtherRadiusInStep
from tests.support.specimens.broken_success import NoFlag, StartsSolved
from tests.support.specimens.correct import NeverEnds
from tests.support.specimens.reach import Reach
from tests.support.specimens.unusual import StrictOptions


class Counted(Reach):
    """An environment that counts its steps, and stores whether it was closed."""

    steps = 0
    closed = False

    def step(self, action):
        self.steps += 1
        return super().step(action)

    def close(self):
        self.closed = True


class Far(Reach):
    """Only one sequence of actions reaches the goal; neither random actions nor a linear model find it."""

    keys = (1, -1, 1, 1, -1, 1)

    def draw_start(self):
        self.entered = 0
        return super().draw_start()

    def move(self, action):
        fits = self.entered < len(self.keys) and abs(action[0] - self.keys[self.entered]) < 0.01
        self.entered = self.entered + 1 if fits else 0
        return self.goal.copy() if self.entered == len(self.keys) else self.position


def test_the_run_takes_max_steps_steps_and_environments_of_a_factory_are_closed():
    env, made = Counted(), []
    assert check_goal_env(env, max_steps=60).steps == 60
    assert env.steps <= 60 + 3, "the budget, and the steps before rewards are computed again"
    assert not env.closed

    def factory():
        made.append(Counted())
        return made[-1]

    check_goal_env(factory, max_steps=50)
    assert len(made) > 1
    assert all(env.closed for env in made)


@pytest.mark.parametrize(
    ("select", "num_envs", "calls_large_batches"),
    [("GE001", 1, False), ("GE106", 1, True), ("GE402", 5, False), ("GE404", 5, False)],
)
def test_only_experiments_of_selected_rules_are_done(select, num_envs, calls_large_batches):
    """If there are replicas, the factory is tested once; GE404 tests whether the constructor seeds."""
    made, sizes = [], set()

    class Counts(Reach):
        def __init__(self):
            super().__init__()
            made.append(self)

        def compute_reward(self, achieved_goal, desired_goal, info):
            sizes.add(achieved_goal.size)
            return super().compute_reward(achieved_goal, desired_goal, info)

    assert not check_goal_env(Counts, max_steps=60, select=select).findings
    assert len(made) == num_envs
    assert (max(sizes) > 1000) == calls_large_batches


def test_a_filter_that_turns_warnings_into_errors_does_not_change_the_report():
    """Warnings are ignored during the check, including those of the factory."""
    made = []

    def factory():
        if made:
            warnings.warn("a second environment", stacklevel=1)
        made.append(Uncopyable())
        return made[-1]

    report = check_goal_env(factory, max_steps=60)
    assert "no second environment of this kind could be made" not in gaps(report)


def test_global_generators_and_the_generator_of_the_action_space_keep_their_states():
    env = Reach()
    env.action_space.seed(3)
    expected = copy.deepcopy(env.action_space)
    before = np.random.get_state()[1].tolist()  # noqa: NPY002 - the state must not change
    check_goal_env(env, max_steps=60)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    np.testing.assert_array_equal(env.action_space.sample(), expected.sample())


def test_equal_seeds_and_budgets_give_equal_reports():
    one, same, other = (check_goal_env(OtherRadiusInStep, max_steps=100, seed=seed) for seed in (5, 5, 6))
    assert one == same != other


def test_a_run_stops_early_when_its_observations_exceed_the_memory_limit(monkeypatch):
    monkeypatch.setattr(rollout, "MAX_ROLLOUT_BYTES", 2**19)
    report = check_goal_env(gym.make("her_envs/BitFlippingImage-v0"), max_steps=3000)
    assert 50 < report.steps < 70  # each with two observations of three images of 36 x 36 bytes
    assert any(reason.endswith("steps: the observations need more than 0 MiB") for reason in gaps(report))


def test_a_report_says_that_no_episode_ended():
    report = check_goal_env(NeverEnds, max_steps=200)
    assert report.steps == 200
    assert report.episodes > 1, "long episodes are stopped, so that there are resets too"
    assert "no episode ended in 200 steps" in gaps(report)


def test_a_policy_reaches_goals_that_random_actions_do_not():
    report = check_goal_env(Far, max_steps=100)
    assert (report.findings, report.successes) == ((), 0)
    assert gaps(report)["no success was seen in 100 steps"] == ("GE202", "GE204", "GE205")
    env = Far()

    def policy(observation):
        return np.float32([env.keys[min(env.entered, 5)], 0])

    report = check_goal_env(env, max_steps=100, policy=policy)
    assert report.successes > 0
    assert "no success was seen in 100 steps" not in gaps(report)


@pytest.mark.parametrize("options", [{"goal": [0.9, 0.9]}, [{"goal": [0.9, 0.9]}, {"goal": [-0.9, 0.9]}]])
def test_reset_options_are_used_in_every_second_episode(options):
    passed = []

    class RecordsOptions(StrictOptions):
        def use_options(self, options):
            passed.append(options)
            super().use_options(options)

    check_goal_env(RecordsOptions(), max_steps=80, reset_options=options)
    expected = options if isinstance(options, list) else [options]
    assert passed[:4] == [None, expected[0], None, expected[-1]]


def test_a_step_reward_that_is_not_a_number_is_reported():
    env = Reach()
    env.reward = lambda observation, info: float("nan")
    (finding,) = check_goal_env(env, max_steps=60, select=["GE114"]).findings
    assert (finding.subject, finding.message) == ("reward of step()", "step() returned reward nan")


class SolvedWithoutFlag(StartsSolved, NoFlag):
    """Episodes start at their goal, which only the rewards show: the info has no ``is_success``."""


def test_goals_reached_at_reset_are_found_without_a_success_flag():
    assert "GE207" in check_goal_env(SolvedWithoutFlag, max_steps=200, select="GE207").codes


def fails():
    raise OSError("no display")


@pytest.mark.parametrize(
    ("env", "options", "error", "message"),
    [
        ("FetchReach-v4", {}, TypeError, "got str; for an id, pass gymnasium.make"),
        (lambda: 5, {}, TypeError, "the factory function must return an Env or VectorEnv, got int"),
        (fails, {}, ValueError, "the factory function raised OSError: no display"),
        (Reach, {"max_steps": 10.5}, ValueError, "max_steps must be .*, got 10.5"),
        (Reach, {"max_seconds": 0}, ValueError, "max_seconds must be a positive number .*, got 0"),
        (Reach, {"seed": -1}, ValueError, "seed must be .* >= 0, got -1"),
        (Reach, {"policy": "random"}, TypeError, "policy must be .*, got 'random'"),
        (Reach, {"reset_options": ["goal"]}, TypeError, "reset_options must be .*, but 'goal' is not a dict"),
        (Reach, {"select": ["GE107"]}, ValueError, "unknown rule code 'GE107'; did you mean GE"),
        (Reach, {"ignore": ["reward"]}, ValueError, "unknown rule code 'reward'"),
    ],
)
def test_a_bad_argument_raises_an_error(env, options, error, message):
    with pytest.raises(error, match=message):
        check_goal_env(env, **options)
