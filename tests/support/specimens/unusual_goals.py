"""Correct environments whose goals are not small float vectors."""

from functools import partial

import numpy as np
from gymnasium import spaces

from tests.support.specimens.reach import SQUARE, Reach, goal_dict


class GridGoals(Reach):
    """Goals are integers, which are compared for equality."""

    def make_space(self):
        cells = spaces.Box(0, 4, (2,), np.uint8)
        return goal_dict(cells, cells)

    def draw_start(self):
        return self.np_random.integers(0, 5, (2, 2)).astype(np.uint8)

    def move(self, action):
        return (self.position + np.sign(action)).clip(0, 4).astype(np.uint8)

    def is_success(self, achieved_goal, desired_goal):
        return (achieved_goal == desired_goal).all(-1)


class ImageGoals(Reach):
    """Goals are images of the point."""

    may_start_solved = True

    def make_space(self):
        image = spaces.Box(0, 255, (1, 8, 8), np.uint8)
        return goal_dict(image, image)

    def draw_start(self):
        return self.np_random.integers(0, 8, (2, 2))

    def move(self, action):
        return (self.position + np.sign(action).astype(int)).clip(0, 7)

    def observe(self):
        return super().observe() | {"observation": self.goal_of(self.position)}

    def goal_of(self, position):
        image = np.zeros((1, 8, 8), np.uint8)
        image[0, *position] = 255
        return image

    def is_success(self, achieved_goal, desired_goal):
        return (achieved_goal == desired_goal).all((-3, -2, -1))


class GoalsInPairs(Reach):
    """A goal is a tuple of two arrays, such as a position and a height."""

    def make_space(self):
        line = spaces.Box(-1, 1, (1,), self.dtype)
        return goal_dict(spaces.Tuple([line, line]))

    def goal_of(self, position):
        return position[:1].copy(), position[1:].copy()

    def distance(self, achieved_goal, desired_goal):
        goals = (np.concatenate(goal, axis=-1) for goal in (achieved_goal, desired_goal))
        return super().distance(*goals)


class OneDimensionalGoals(Reach):
    """Goals of shape (1,), for which a squeeze would be wrong."""

    def make_space(self):
        line = spaces.Box(-1, 1, (1,), np.float32)
        return goal_dict(line, line)

    def draw_start(self):
        return self.np_random.uniform(-1, 1, (2, 1)).astype(np.float32)

    def move(self, action):
        return (self.position + 0.2 * action[:1]).clip(-1, 1)


class GoalFromPosition(Reach):
    """The goal of a state is an element of ``goal_space`` that is computed from the position."""

    goal_space = SQUARE

    def make_space(self):
        return goal_dict(self.goal_space)


class CellAndOffset(GoalFromPosition):
    """A Dict goal with a Discrete part."""

    goal_space = spaces.Dict({"cell": spaces.Discrete(4), "offset": SQUARE})

    def goal_of(self, position):
        return {"cell": np.int64(2 * (position[0] > 0) + (position[1] > 0)), "offset": position.copy()}

    def is_success(self, achieved_goal, desired_goal):
        distance = self.distance(achieved_goal["offset"], desired_goal["offset"])
        return (achieved_goal["cell"] == desired_goal["cell"]) & (distance < 0.5)


class MaskedGoal(GoalFromPosition):
    """Success depends on the coordinates that the mask of the desired goal selects."""

    goal_space = spaces.Dict({"place": SQUARE, "mask": spaces.MultiBinary(2)})

    def draw_start(self):
        self.mask = np.int8([1, self.np_random.integers(2)])
        return super().draw_start()

    def goal_of(self, position):
        return {"place": position.copy(), "mask": self.mask.copy()}

    def is_success(self, achieved_goal, desired_goal):
        difference = (achieved_goal["place"] - desired_goal["place"]) * desired_goal["mask"]
        return np.linalg.norm(difference, axis=-1) < self.radius


class UnboundedGoals(GoalFromPosition):
    goal_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def goal_of(self, position):
        return position.astype(np.float64) * 1e6

    def distance(self, achieved_goal, desired_goal):
        return np.linalg.norm(achieved_goal - desired_goal, axis=-1) / 1e6


class ComputedGoals(GoalFromPosition):
    """The goal of a state and the success are computed by the functions."""

    def __init__(self, goal_space, goal_of, is_success):
        self.goal_space, self.goal_of, self.is_success = goal_space, goal_of, is_success
        super().__init__()


def are_equal(achieved_goal, desired_goal):
    return (achieved_goal == desired_goal).all(-1)


def are_near(limit, dtype):
    """Return a function that compares goals after a cast."""
    return lambda a, d: np.abs(a.astype(dtype) - d.astype(dtype)).max(-1) < limit


def box(low, high, dtype, shape=(2,)):
    return spaces.Box(low, high, shape, dtype)


COMPUTED = {  # space, goal of a position p, and whether an achieved goal reaches a desired one
    "cells": (spaces.MultiDiscrete([5, 5]), lambda p: np.int64((p + 1) * 2.499), are_equal),
    "numbered cells": (
        spaces.Discrete(16, start=10),
        lambda p: np.int64(10) + np.int64((p + 1.0) * 1.999) @ [4, 1],
        lambda achieved, desired: achieved == desired,
    ),
    "bytes": (box(0, 255, np.uint8), lambda p: ((p + 1) * 127).astype(np.uint8), are_near(40, int)),
    "large integers": (box(-(2**45), 2**45, int), lambda p: np.int64(p * 2.0**40), are_near(2**37, int)),
    "half precision": (box(-1, 1, np.float16), np.float16, are_near(0.25, np.float32)),
    "without axes": (box(-1, 1, np.float32, ()), lambda p: np.array(p[0]), lambda a, d: np.abs(a - d) < 0.2),
    # more components than the checker's steering policy models
    "long goals": (box(-1, 1, np.float32, (100,)), lambda p: np.tile(p, 50), are_near(0.25, float)),
}
GOALS = {name: partial(ComputedGoals, *options) for name, options in COMPUTED.items()}
