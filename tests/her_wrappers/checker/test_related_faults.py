"""Faults that resemble planted ones are found, and correct environments that resemble faulty ones are not."""

import random
import time

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from her_wrappers import check_goal_env
from tests.support.specimens.broken_batches import LosesTheCost
from tests.support.specimens.broken_episodes import Diverges
from tests.support.specimens.broken_rewards import OtherRadiusInStep, ReadsInfo, RewardsAtRestOnly
from tests.support.specimens.broken_seeds import InfoFromTheGlobalGenerator, KeepsTheFirstGoal
from tests.support.specimens.broken_success import (
    RadiusInMillimetres,
    SuccessTruncates,
    TerminatesBeforeSuccess,
)
from tests.support.specimens.broken_vectors import Reaches
from tests.support.specimens.correct import CostInInfo
from tests.support.specimens.reach import DenseReach, Reach, from_infos

# Terminations


class DenseTerminatesEarly(DenseReach):
    terminated, compute_terminated = TerminatesBeforeSuccess.terminated, Reach.compute_terminated


class TruncatesAtTheEndOnly(Reach):
    """The position is that of the goal at the time limit."""

    compute_terminated = None
    horizon = 5

    def move(self, action):
        return self.goal.copy() if self.elapsed == 4 else super().move(action * 0)

    def terminated(self, observation, info):
        return False


class SuccessTruncatesEvenIfComputed(SuccessTruncates):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) & False


# Infos that goal functions read


class OwnFlagInInfo(ReadsInfo):
    def term(self):
        return float(self.distance(self.position, self.goal) < 0.5)


class HeightInInfo(ReadsInfo):
    """The term depends on the position alone."""

    def term(self):
        return float(self.position[1])


class HeavyTurnInInfo(ReadsInfo):
    """The term is one of two values, which are independent of the goal."""

    def term(self):
        return float(self.position[0] > 0.1)


class TerminatesWithOwnFlag(OwnFlagInInfo):
    compute_reward = Reach.compute_reward

    def terminated(self, observation, info):
        return info["term"] > 0

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return from_infos("term", info, 0.0) > 0


class LosesTheCostOfOthers(LosesTheCost):
    def compute_reward(self, achieved_goal, desired_goal, info):
        first = info[0] if isinstance(info, np.ndarray) else info
        return CostInInfo.compute_reward(self, achieved_goal, desired_goal, first)


class PythonsRandom(InfoFromTheGlobalGenerator):
    def noise(self):
        return random.random()


class NoiseOfOwnGenerator(InfoFromTheGlobalGenerator):
    def noise(self):
        return float(self.np_random.normal())


class Clock(InfoFromTheGlobalGenerator):
    def noise(self):
        return time.perf_counter()


# Goals


class GoalOfOtherDtype(Reach):
    """After the reset, the goal is rounded to another dtype."""

    dtype = np.float64
    shift = 0.0

    def observe(self):
        goal = (self.goal + self.shift).astype(np.float32) if self.elapsed else self.goal.copy()
        return super().observe() | {"desired_goal": goal}


class GoalOfOtherDtypeAndValue(GoalOfOtherDtype):
    shift = 1e-3


class GoalCreeps(Reach):
    def observe(self):
        goal = self.goal + np.float32(1e-7 * self.elapsed)
        return super().observe() | {"desired_goal": goal}


class HardCodedGoal(Reach):
    """Success ignores the desired goal: one fixed point counts, which few steps reach."""

    def is_success(self, achieved_goal, desired_goal):
        return self.distance(achieved_goal, np.float32([0.95, 0.95])) < 0.15


class LargeRadius(RadiusInMillimetres):
    radius = 3.0


# Resets


class RemembersTheFirstStart(KeepsTheFirstGoal):
    """The first goal is kept, but has no effect."""

    def draw_start(self):
        start, goal = Reach.draw_start(self)
        self.first = goal if self.first is None else self.first
        return np.stack([start, goal])


class TwoStarts(Reach):
    def draw_start(self):
        return np.float32([[-0.5, 0], [0.5, 0]]) * self.np_random.choice([-1, 1])


class RowsWithTwoStarts(Reaches):
    """Half of the episodes of a row begin alike."""

    mode = AutoresetMode.NEXT_STEP
    single = TwoStarts


@pytest.mark.parametrize(
    ("env", "code", "severities", "steps"),
    [
        (DenseTerminatesEarly, "GE205", {"warning"}, 250),
        (SuccessTruncatesEvenIfComputed, "GE208", {"warning"}, 250),
        (TruncatesAtTheEndOnly, "GE208", set(), 150),
        (OwnFlagInInfo, "GE110", {"error"}, 150),
        (HeightInInfo, "GE110", set(), 150),
        (HeavyTurnInInfo, "GE110", set(), 150),
        (TerminatesWithOwnFlag, "GE110", {"error"}, 150),
        (LosesTheCostOfOthers, "GE113", {"warning"}, 60),
        (PythonsRandom, "GE401", {"warning"}, 60),
        (NoiseOfOwnGenerator, "GE401", set(), 60),
        (Clock, "GE401", set(), 60),
        (GoalOfOtherDtype, "GE303", set(), 60),
        (GoalOfOtherDtypeAndValue, "GE303", {"error"}, 60),
        (GoalCreeps, "GE303", {"error"}, 60),
        (HardCodedGoal, "GE110", {"error"}, 150),
        (LargeRadius, "GE110", set(), 150),
        (LargeRadius, "GE207", {"warning", "info"}, 150),
        (type("SmallerRadius", (RadiusInMillimetres,), {"radius": 1.0}), "GE207", set(), 150),
        (RemembersTheFirstStart, "GE40", set(), 150),
        (RowsWithTwoStarts, "GE405", set(), 150),
        (type("BadPosition", (Diverges,), {"kind": 4}), "GE307", {"warning"}, 150),
        (type("ManyContacts", (Diverges,), {"kind": 1}), "GE307", set(), 150),
    ],
)
def test_only_the_faulty_ones_are_reported(env, code, severities, steps):
    report = check_goal_env(env, max_steps=steps, select=code)
    assert {finding.severity for finding in report.findings} == severities


# Causes that messages name


class DrawsStartsGlobally(Reach):
    def draw_start(self):
        return np.random.uniform(-1, 1, (2, 2)).astype(np.float32)  # noqa: NPY002


class JudgesANoisyGoal(Reach):
    def reward(self, observation, info):
        achieved = observation["achieved_goal"] + self.np_random.normal(0, 0.15, 2)
        return float(self.compute_reward(achieved, observation["desired_goal"], info))


@pytest.mark.parametrize(
    ("specimen", "code", "cause"),
    [
        (DrawsStartsGlobally, "GE401", "reset() draws from numpy.random"),
        (OtherRadiusInStep, "GE101", "by another threshold"),
        (RewardsAtRestOnly, "GE101", "another threshold, or by more than the goals"),
        (JudgesANoisyGoal, "GE101", "by other goals than it returns"),
    ],
)
def test_a_message_names_the_cause(specimen, code, cause):
    [finding] = check_goal_env(specimen, max_steps=2000, select=[code]).findings
    assert cause in finding.message
