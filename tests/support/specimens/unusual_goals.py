"""Correct environments whose goals are not small float vectors."""

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


class Cells(GoalFromPosition):
    """Goals are cells of a grid."""

    goal_space = spaces.MultiDiscrete([5, 5])

    def goal_of(self, position):
        return np.floor((position + 1) * 2.499).astype(self.goal_space.dtype)

    def is_success(self, achieved_goal, desired_goal):
        return (achieved_goal == desired_goal).all(-1)


class NumberedCells(GoalFromPosition):
    """Discrete goals that start at 10."""

    goal_space = spaces.Discrete(16, start=10)

    def goal_of(self, position):
        cell = np.floor((position.astype(float) + 1) * 1.999).astype(np.int64)
        return np.int64(10) + 4 * cell[0] + cell[1]

    def is_success(self, achieved_goal, desired_goal):
        return achieved_goal == desired_goal


class ByteGoals(Cells):
    """Goals are bytes, which are cast before the subtraction."""

    goal_space = spaces.Box(0, 255, (2,), np.uint8)

    def goal_of(self, position):
        return ((position + 1) * 127).astype(np.uint8)

    def is_success(self, achieved_goal, desired_goal):
        return np.abs(achieved_goal.astype(int) - desired_goal.astype(int)).max(-1) < 40


class LargeIntegers(ByteGoals):
    goal_space = spaces.Box(-(2**45), 2**45, (2,), np.int64)

    def goal_of(self, position):
        return (position.astype(float) * 2**40).astype(np.int64)

    def is_success(self, achieved_goal, desired_goal):
        return np.abs(achieved_goal - desired_goal).max(-1) < 2**37


class HalfPrecisionGoals(GoalFromPosition):
    goal_space = spaces.Box(-1, 1, (2,), np.float16)

    def goal_of(self, position):
        return position.astype(np.float16)

    def distance(self, achieved_goal, desired_goal):
        return np.linalg.norm(achieved_goal.astype(np.float32) - desired_goal.astype(np.float32), axis=-1)


class GoalWithoutAxes(GoalFromPosition):
    """A goal is a single number, an array of shape ()."""

    goal_space = spaces.Box(-1, 1, (), np.float32)

    def goal_of(self, position):
        return np.array(position[0])

    def is_success(self, achieved_goal, desired_goal):
        return np.abs(achieved_goal - desired_goal) < 0.2


class LongGoals(GoalFromPosition):
    """Goals have more components than the checker's steering policy models."""

    goal_space = spaces.Box(-1, 1, (100,), np.float32)

    def goal_of(self, position):
        return np.tile(position, 50)

    def distance(self, achieved_goal, desired_goal):
        return np.abs(achieved_goal - desired_goal).max(-1)


class UnboundedGoals(GoalFromPosition):
    goal_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def goal_of(self, position):
        return position.astype(np.float64) * 1e6

    def distance(self, achieved_goal, desired_goal):
        return np.linalg.norm(achieved_goal - desired_goal, axis=-1) / 1e6


GOALS = [
    CellAndOffset, MaskedGoal, Cells, NumberedCells,
    ByteGoals, LargeIntegers, HalfPrecisionGoals, GoalWithoutAxes, LongGoals, UnboundedGoals,
]  # fmt: skip
