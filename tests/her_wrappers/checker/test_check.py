"""check_goal_env: what it does with budgets, seeds, policies, selections and bad input."""

from __future__ import annotations

import copy
import itertools
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

import her_envs
from her_wrappers import GoalEnvError, check_goal_env
from her_wrappers.checker import rollout
from her_wrappers.checker.collect import Budget, collect
from her_wrappers.checker.judge import apply
from her_wrappers.checker.probe import Answer, same_answer
from her_wrappers.checker.registry import RULES
from her_wrappers.checker.replicas import EnvReplicator
from her_wrappers.checker.rules.reward import _cause
from tests.support.checker import Uncopyable, gaps
from tests.support.specimens.broken_batches import NormOverEverything
from tests.support.specimens.broken_episodes import FlagWithOtherRadius, NoFlag, StartsSolved
from tests.support.specimens.broken_rewards import RewardOffset, RewardScaled, UsesOwnPosition
from tests.support.specimens.broken_spaces import (
    GoalBoundsDiffer,
    ResetRaises,
    StepRaises,
    StepReturnsFourValues,
)
from tests.support.specimens.correct import GoalByOptions, NeverEnds
from tests.support.specimens.reach import Reach


class Counted(Reach):
    """Counts its steps, and whether it was closed."""

    def __init__(self):
        super().__init__()
        self.steps = 0
        self.closed = False

    def step(self, action):
        self.steps += 1
        return super().step(action)

    def close(self):
        self.closed = True


class Far(Reach):
    """A goal that neither chance nor a linear model finds: actions work in one sequence only."""

    keys = (1, -1, 1, 1, -1, 1)

    def reset(self, *, seed=None, options=None):
        self.turned = 0
        return super().reset(seed=seed)

    def move(self, action):
        fits = self.turned < len(self.keys) and abs(action[0] - self.keys[self.turned]) < 0.01
        self.turned = self.turned + 1 if fits else 0
        return self.goal.copy() if self.turned == len(self.keys) else self.position


def test_the_budget_is_in_steps_and_kept():
    env = Counted()
    report = check_goal_env(env, max_steps=250)
    assert report.steps == 250
    assert env.steps <= 250 + 3, "besides the budget come the steps before rewards are asked for again"


def test_an_environment_passed_in_is_not_closed_and_one_made_is():
    env, made = Counted(), []
    check_goal_env(env, max_steps=50)
    assert not env.closed

    def factory():
        made.append(Counted())
        return made[-1]

    check_goal_env(factory, max_steps=50)
    assert len(made) > 1
    assert all(env.closed for env in made)


def test_a_close_that_raises_does_not_cost_the_report():
    class Jammed(Reach):
        def close(self):
            raise RuntimeError("the window is gone")

    assert check_goal_env(Jammed, max_steps=50).steps == 50


def test_warnings_that_are_errors_do_not_change_the_verdict():
    """All of them are quiet while the check runs, those of making another environment too."""
    made = []

    def factory():
        if made:
            warnings.warn("a second environment", stacklevel=1)
        made.append(Uncopyable())
        return made[-1]

    report = check_goal_env(factory, max_steps=60)
    assert "no second environment of this kind could be made" not in gaps(report)


def test_the_global_generators_and_the_users_space_are_left_alone():
    env = Reach()
    env.action_space.seed(3)
    twin = copy.deepcopy(env.action_space)
    before = np.random.get_state()[1].tolist()  # noqa: NPY002 - to see that nobody uses it
    check_goal_env(env, max_steps=100)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    np.testing.assert_array_equal(env.action_space.sample(), twin.sample())


def test_seed_and_budget_fix_the_report():
    reports = [check_goal_env(FlagWithOtherRadius, max_steps=300, seed=5) for _ in range(2)]
    assert reports[0] == reports[1]
    assert reports[0] != check_goal_env(FlagWithOtherRadius, max_steps=300, seed=6)


def test_a_run_ends_where_its_observations_fill_the_memory_meant_for_them(monkeypatch):
    monkeypatch.setattr(rollout, "MAX_BYTES", 2**20)
    report = check_goal_env(gym.make("her_envs/BitFlippingImage-v0"), max_steps=3000)
    assert 100 < report.steps < 140  # of two observations with three pictures of 36 x 36 bytes
    assert [reason for reason in gaps(report) if reason.endswith("steps: the observations filled 1 MiB")]


def test_a_cut_off_by_time_is_reported():
    report = check_goal_env(Reach, max_steps=10**7, max_seconds=0.05)
    assert 0 < report.steps < 10**6
    assert [reason for reason in gaps(report) if "max_seconds had passed" in reason]


def test_an_episode_that_never_ends_stops_at_the_budget_and_says_so():
    report = check_goal_env(NeverEnds, max_steps=200)
    assert report.steps == 200
    assert report.episodes > 1, "long episodes are left, to see resets too"
    assert "no episode ended in 200 steps" in gaps(report)


def test_success_that_was_not_seen_is_reported_with_the_rules_that_prove_nothing():
    report = check_goal_env(Far, max_steps=300)
    assert not report.findings
    assert report.successes == 0
    assert gaps(report)["no success was seen in 300 steps"] == ("GE202", "GE204", "GE205")


def test_a_policy_reaches_what_chance_does_not():
    env = Far()

    def policy(observation):
        return np.float32([env.keys[min(env.turned, 5)], 0])

    report = check_goal_env(env, max_steps=300, policy=policy)
    assert report.successes > 0
    assert "no success was seen in 300 steps" not in gaps(report)


@pytest.mark.parametrize("options", [{"goal": [0.9, 0.9]}, [{"goal": [0.9, 0.9]}, {"goal": [-0.9, 0.9]}]])
def test_reset_options_are_used_in_every_second_episode(options):
    seen = []

    class Listens(GoalByOptions):
        def reset(self, *, seed=None, options=None):
            seen.append(options)
            return super().reset(seed=seed, options=options)

    check_goal_env(Listens(), max_steps=100, reset_options=options)
    expected = options if isinstance(options, list) else [options]
    assert seen[:4] == [None, expected[0], None, expected[-1]]


def test_the_search_finds_successes_that_random_actions_do_not():
    """Ten bits, ten steps: a random walk reaches one goal in a thousand, steering most of them."""
    report = check_goal_env(gym.make("her_envs/BitFlipping-v0"), max_steps=1200)
    assert report.successes > 30


def test_select_and_ignore_choose_what_is_reported():
    assert check_goal_env(NoFlag, max_steps=60).codes == ["GE201"]
    assert check_goal_env(NoFlag, max_steps=60, select=["GE1"]).codes == []
    assert check_goal_env(NoFlag, max_steps=60, ignore=["GE201"]).codes == []
    assert check_goal_env(NoFlag, max_steps=60, select="GE20").codes == ["GE201"]


def test_select_applies_only_the_selected_rules_and_those_that_imply_them(monkeypatch):
    applied = []
    for rule in list(RULES.values()):

        def check(evidence, rule=rule):
            applied.append(rule.code)
            return rule.check(evidence)

        monkeypatch.setitem(RULES, rule.code, replace(rule, check=check))
    check_goal_env(FlagWithOtherRadius, max_steps=200, select=["GE202"])
    assert "GE202" in applied
    assert {code for code in applied if code != "GE202"} == {
        code for code in applied if "GE202" in RULES[code].implies
    }
    assert {"GE101", "GE111"} <= set(applied)


def test_a_root_cause_that_is_not_selected_still_removes_what_it_implies():
    (finding,) = check_goal_env(UsesOwnPosition, max_steps=100).of_severity("error")
    assert finding.code == "GE110"
    evidence = collect(UsesOwnPosition(), EnvReplicator(None), Budget(100))
    assert apply([RULES["GE115"]], evidence), "the goal of another step is rewarded better than its own"
    assert check_goal_env(UsesOwnPosition, max_steps=100, select=["GE115"]).codes == []


def test_what_follows_from_a_finding_stays_away_even_if_the_finding_is_ignored():
    assert check_goal_env(NormOverEverything, max_steps=60, ignore=["GE105"]).codes == []


@pytest.mark.parametrize(
    ("specimen", "place", "got"),
    [
        (StepRaises, "episode 0, step 7", "RuntimeError: the simulator has crashed"),
        (ResetRaises, "episode 4", "OSError: no such level"),
        (StepReturnsFourValues, "episode 0, step 0", "TypeError: expected 5 values, got 4 values"),
    ],
)
def test_an_environment_that_raises_gets_a_finding_with_the_tracebacks_last_line(specimen, place, got):
    report = check_goal_env(specimen, max_steps=200)
    (finding,) = report.of_severity("error")
    assert (finding.code, finding.place, finding.got) == ("GE000", place, got)


def test_what_happened_before_an_exception_is_judged_all_the_same():
    class ScaledAndFragile(StepRaises, RewardScaled):
        pass

    assert check_goal_env(ScaledAndFragile, max_steps=200).codes == ["GE000", "GE101"]


def test_raise_if_errors_is_a_test_of_one_line():
    check_goal_env(GoalBoundsDiffer, max_steps=60).raise_if_errors()
    with pytest.raises(GoalEnvError, match="GE006 goal-bounds-differ"):
        check_goal_env(GoalBoundsDiffer, max_steps=60).raise_if_errors(strict=True)
    with pytest.raises(GoalEnvError, match="GE101 reward-mismatch: episode 0, step 0"):
        check_goal_env(RewardOffset, max_steps=60).raise_if_errors()


@pytest.mark.parametrize(
    ("specimen", "cause"),
    [
        (RewardOffset, "a constant offset of 1.0 explains it"),
        (RewardScaled, "a constant factor of 10.0 explains it"),
    ],
)
def test_a_mismatch_comes_with_its_likely_cause(specimen, cause):
    (finding,) = check_goal_env(specimen, max_steps=100).of_severity("error")
    assert finding.hint == cause


def test_two_mismatches_are_enough_for_a_cause_and_one_is_not():
    mismatches = [
        (SimpleNamespace(reward=reward), SimpleNamespace(number=reward + 2)) for reward in (1.0, 3.0)
    ]
    evidence = SimpleNamespace(reward=None, is_sparse=False)
    assert _cause(evidence, mismatches) == "a constant offset of -2.0 explains it"
    assert _cause(evidence, mismatches[:1]) == ""


def test_an_answer_differs_from_an_error_and_from_another_error():
    answers = [Answer(1.0), Answer(None, ValueError("full")), Answer(None, ValueError("empty")), Answer("")]
    for a, b in itertools.product(answers, repeat=2):
        assert same_answer(a, b) == (a is b)


def test_a_reward_of_step_that_is_no_number_is_told_as_such():
    env = Reach()
    env.reward = lambda observation, info: float("nan")
    (finding,) = check_goal_env(env, max_steps=60, select=["GE114"]).findings
    assert (finding.expected, finding.got) == ("a finite reward", "nan")
    assert finding.subject == "reward of step()"


@pytest.mark.parametrize("env_id", her_envs.registration.ENTRY_POINTS)
def test_bundled_environments_take_less_than_five_seconds(env_id):
    start = time.process_time()  # of this process alone, so that a busy machine does not matter
    report = check_goal_env(gym.make(env_id))
    assert time.process_time() - start < 5
    assert report.steps == 3000


def test_the_checker_needs_neither_torch_nor_pygame_nor_rich():
    code = (
        "import sys, her_wrappers; sys.exit(bool({'torch', 'pygame', 'rich', 'typer'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class WornOut(Reach):
    """Lasts for a hundred steps."""

    steps_left = 100

    def step(self, action):
        self.steps_left -= 1
        if self.steps_left < 0:
            raise RuntimeError("worn out")
        return super().step(action)


def test_a_failure_while_the_checker_asks_again_is_a_finding_too():
    [found] = check_goal_env(WornOut, max_steps=100).of_severity("error")
    assert found.code == "GE000"
    assert found.place == "after the run"
    assert found.got == "RuntimeError: worn out"


class SolvedWithoutFlag(StartsSolved, NoFlag):
    """That it begins solved shows in its rewards alone."""


def test_starts_that_are_solved_are_seen_without_a_flag():
    assert "GE207" in check_goal_env(SolvedWithoutFlag).codes


class NoInfoAtTimes(Reach):
    def inform(self, observation):
        return None if self.elapsed == 3 else super().inform(observation)


def test_an_info_that_is_no_dict_is_named_by_its_step():
    report = check_goal_env(NoInfoAtTimes, max_steps=100)
    [found] = [finding for finding in report.findings if finding.expected == "a dict as info"]
    assert found.got == "None"
    assert found.place.endswith("step 2")
