"""Faults that resemble planted ones are found, and correct environments that resemble faulty ones are not."""

import random
import time

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from her_wrappers import check_goal_env
from tests.support.specimens.broken_values import (
    ConcatenatesInItsOwnOrder,
    Diverges,
    FlagOnlyIfTrueInTheMiddle,
    InfoFromTheGlobalGenerator,
    KeepsTheFirstGoal,
    LosesTheCost,
    RadiusInMillimetres,
    ReadsInfo,
    SuccessTruncates,
)
from tests.support.specimens.broken_vectors import Reaches
from tests.support.specimens.correct import CostInInfo
from tests.support.specimens.neighbors import FlagAtTheEnd
from tests.support.specimens.reach import DenseReach, Reach, from_infos


def found(env, code, steps=150):
    """Return the severities of the findings of one rule."""
    return {each.severity for each in check_goal_env(env, max_steps=steps, select=code).findings}


# Terminations


class DenseTerminatesEarly(DenseReach):
    def terminated(self, observation, info):
        return bool(self.distance(self.position, self.goal) < 2 * self.radius)

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal)


class CrashesAtWalls(Reach):
    """Crashes are independent of the goal."""

    def terminated(self, observation, info):
        return bool(np.abs(self.position).max() > 0.9) or super().terminated(observation, info)


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


@pytest.mark.parametrize(
    ("env", "code", "severities"),
    [
        (DenseTerminatesEarly, "GE205", {"warning"}),
        (CrashesAtWalls, "GE205", set()),
        (SuccessTruncatesEvenIfComputed, "GE208", {"warning"}),
        (TruncatesAtTheEndOnly, "GE208", set()),
    ],
)
def test_ends_of_episodes(env, code, severities):
    assert found(env, code, 250) == severities


# Infos that goal functions read


class OwnFlagInInfo(ReadsInfo):
    def term(self, observation, info):
        return float(self.distance(self.position, self.goal) < 0.5)


class HeightInInfo(ReadsInfo):
    """The term depends on the position alone."""

    def term(self, observation, info):
        return float(self.position[1])


class HeavyTurnInInfo(ReadsInfo):
    """The term is one of two values, which are independent of the goal."""

    def term(self, observation, info):
        return float(self.position[0] > 0.1)


class TerminatesWithOwnFlag(OwnFlagInInfo):
    compute_reward = Reach.compute_reward

    def terminated(self, observation, info):
        return info["term"] > 0

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return from_infos("term", info, 0.0) > 0


@pytest.mark.parametrize(
    ("env", "code", "severities"),
    [
        (OwnFlagInInfo, "GE110", {"error"}),
        (HeightInInfo, "GE110", set()),
        (HeavyTurnInInfo, "GE110", set()),
        (TerminatesWithOwnFlag, "GE209", {"error"}),
    ],
)
def test_infos_that_depend_on_the_recorded_goal(env, code, severities):
    assert found(env, code) == severities


class LosesTheCostOfOthers(LosesTheCost):
    def compute_reward(self, achieved_goal, desired_goal, info):
        first = info[0] if isinstance(info, np.ndarray) else info
        return CostInInfo.compute_reward(self, achieved_goal, desired_goal, first)


class SkipsEmptyInfos(LosesTheCost):
    def compute_reward(self, achieved_goal, desired_goal, info):
        reward = Reach.compute_reward(self, achieved_goal, desired_goal, info)
        costs = [row["cost"] for row in ([info] if isinstance(info, dict) else info) if "cost" in row]
        return reward[: len(costs)] - costs if np.ndim(reward) else reward - sum(costs)


@pytest.mark.parametrize(
    ("env", "severities"),
    [(LosesTheCostOfOthers, {"warning"}), (SkipsEmptyInfos, {"warning"}), (CostInInfo, set())],
)
def test_forms_of_infos(env, severities):
    assert found(env, "GE113", 60) == severities


class PythonsRandom(InfoFromTheGlobalGenerator):
    def noise(self):
        return random.random()


class NoiseOfOwnGenerator(InfoFromTheGlobalGenerator):
    def noise(self):
        return float(self.np_random.normal())


class Clock(InfoFromTheGlobalGenerator):
    def noise(self):
        return time.perf_counter()


@pytest.mark.parametrize(
    ("env", "severities"),
    [(PythonsRandom, {"warning"}), (NoiseOfOwnGenerator, set()), (Clock, set())],
)
def test_infos_drawn_from_global_generators(env, severities):
    assert found(env, "GE401", 60) == severities


class FlagOnlyIfTrueWithoutFailures(FlagOnlyIfTrueInTheMiddle):
    """Success ends the episode."""

    compute_terminated = Reach.compute_terminated


@pytest.mark.parametrize(
    ("env", "severities"),
    [
        (FlagOnlyIfTrueInTheMiddle, {"warning", "info"}),
        (FlagOnlyIfTrueWithoutFailures, {"warning", "info"}),
        (FlagAtTheEnd, {"info"}),
    ],
)
def test_flags_that_are_missing(env, severities):
    assert found(env, "GE203", 400) == severities


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


@pytest.mark.parametrize(
    ("env", "severities"),
    [(GoalOfOtherDtype, set()), (GoalOfOtherDtypeAndValue, {"error"}), (GoalCreeps, {"error"})],
)
def test_goals_of_another_dtype(env, severities):
    assert found(env, "GE303", 60) == severities


class HardCodedGoal(Reach):
    """Success ignores the desired goal: one fixed point counts, which few steps reach."""

    def is_success(self, achieved_goal, desired_goal):
        return self.distance(achieved_goal, np.float32([0.95, 0.95])) < 0.15


class ReadsByKey(ConcatenatesInItsOwnOrder):
    def is_success(self, achieved_goal, desired_goal):
        goals = [np.concatenate([goal["y"], goal["x"]], axis=-1) for goal in (achieved_goal, desired_goal)]
        return self.distance(*(goal * [1, 3] for goal in goals)) < 0.4


@pytest.mark.parametrize(
    ("env", "code", "severities"),
    [
        (HardCodedGoal, "GE110", {"error"}),
        (type("Radius", (RadiusInMillimetres,), {"radius": 3.0}), "GE110", set()),
        (type("Radius", (RadiusInMillimetres,), {"radius": 3.0}), "GE207", {"warning", "info"}),
        (type("Radius", (RadiusInMillimetres,), {"radius": 1.0}), "GE207", set()),
        (ReadsByKey, "GE121", set()),
    ],
)
def test_goals_that_are_reached_never_or_always(env, code, severities):
    assert found(env, code) == severities


# Resets


class DriftOfTheFirstEpisode(KeepsTheFirstGoal):
    def draw_start(self):
        start, goal = Reach.draw_start(self)
        self.first = goal if self.first is None else self.first
        return np.stack([start, goal])

    def move(self, action):
        return (super().move(action) + 0.05 * self.first).clip(-1, 1).astype(np.float32)


class RemembersTheLastStart(Reach):
    """The first start of an environment is kept, but has no effect."""

    first = None

    def draw_start(self):
        start, goal = super().draw_start()
        self.first = start if self.first is None else self.first
        return np.stack([start, goal])


class RowsWithTwoStarts(Reaches):
    """Half of the episodes of a row begin alike."""

    mode = AutoresetMode.NEXT_STEP

    @property
    def single(self):
        class TwoStarts(Reach):
            def draw_start(self):
                return np.float32([[-0.5, 0], [0.5, 0]]) * self.np_random.choice([-1, 1])

        return TwoStarts


@pytest.mark.parametrize(
    ("env", "code", "severities"),
    [
        (DriftOfTheFirstEpisode, "GE40", {"error"}),
        (RemembersTheLastStart, "GE40", set()),
        (RowsWithTwoStarts, "GE405", set()),
        (lambda: SyncVectorEnv([Reach] * 3, autoreset_mode=AutoresetMode.DISABLED), "GE606", set()),
        (type("BadPosition", (Diverges,), {"kind": 4}), "GE307", {"warning"}),
        (type("ManyContacts", (Diverges,), {"kind": 1}), "GE307", set()),
    ],
)
def test_resets(env, code, severities):
    assert found(env, code) == severities
