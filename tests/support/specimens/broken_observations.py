"""Specimens whose observation contains values that depend on the desired goal."""

from types import SimpleNamespace

import numpy as np
from gymnasium import spaces

from tests.support.specimens.reach import SQUARE, DenseReach, Reach, goal_dict


class Relative(Reach):
    """The observation is the position and the values of ``extra``."""

    def make_space(self):
        size = 2 + len(self.extra(np.zeros(2), np.ones(2)))
        return goal_dict(SQUARE, spaces.Box(-99, 99, (size,), np.float32))

    def observe(self):
        values = [*self.position, *self.extra(self.position, self.goal)]
        return super().observe() | {"observation": np.float32(values)}


class ObservesTheDifference(Relative, breaks="GE304"):
    def extra(self, position, goal):
        return goal - position


class ObservesTheGoal(Relative, breaks="GE304"):
    def extra(self, position, goal):
        return goal


class ObservesTheDistance(Relative, DenseReach, breaks="GE304"):
    def extra(self, position, goal):
        return [np.linalg.norm(goal - position)]


class RemembersRewards(Relative):
    """The observation is the position and a value that step() computes from former rewards."""

    value = np.float32(0)

    def extra(self, position, goal):
        return [self.value]

    def draw_start(self):
        self.value = np.float32(0)
        return super().draw_start()

    def move(self, action):
        moved = super().move(action)
        self.value = np.float32(self.remember(self.compute_reward(moved, self.goal, {})))
        return moved


class ObservesTheLastReward(RemembersRewards, breaks="GE304"):
    def remember(self, reward):
        return reward


class ObservesTheReturn(RemembersRewards, DenseReach, breaks="GE304"):
    def remember(self, reward):
        return self.value + reward


class ObservesTheReturnOfATask(ObservesTheReturn, breaks="GE304"):
    """The goal is an attribute of a task object."""

    goal = property(
        lambda self: self.task.goal, lambda self, goal: setattr(self, "task", SimpleNamespace(goal=goal))
    )
