"""Correct environments whose goals are not small float vectors."""

import numpy as np
from gymnasium import spaces

from tests.support.specimens.reach import Reach, goal_dict


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
