"""Correct environments whose goals are not small float vectors."""

import numpy as np
from gymnasium import spaces

from tests.support.specimens.reach import Reach


class GridGoals(Reach):
    """Goals are integers, which are compared for equality."""

    def make_space(self):
        cells = spaces.Box(0, 4, (2,), np.uint8)
        return spaces.Dict({"observation": cells, "achieved_goal": cells, "desired_goal": cells})

    def draw_start(self):
        return self.np_random.integers(0, 5, (2, 2)).astype(np.uint8)

    def move(self, action):
        return (self.position + np.sign(action)).clip(0, 4).astype(np.uint8)

    def is_success(self, achieved_goal, desired_goal):
        return (achieved_goal == desired_goal).all(-1)


class ImageGoals(Reach):
    """Goals are images of the point."""

    def make_space(self):
        image = spaces.Box(0, 255, (1, 8, 8), np.uint8)
        return spaces.Dict({"observation": image, "achieved_goal": image, "desired_goal": image})

    def draw_start(self):
        return self.np_random.integers(0, 8, (2, 2))

    def move(self, action):
        return (self.position + np.sign(action).astype(int)).clip(0, 7)

    def observe(self):
        return {
            "observation": self.picture(self.position),
            "achieved_goal": self.picture(self.position),
            "desired_goal": self.picture(self.goal),
        }

    def picture(self, cell):
        image = np.zeros((1, 8, 8), np.uint8)
        image[0, *cell] = 255
        return image

    def reset(self, *, seed=None, options=None):
        super(Reach, self).reset(seed=seed)
        self.position, self.goal = self.draw_start()
        self.elapsed = 0
        observation = self.observe()
        return observation, self.inform(observation)

    def is_success(self, achieved_goal, desired_goal):
        return (achieved_goal == desired_goal).all((-3, -2, -1))


class GoalsInPairs(Reach):
    """A goal is a tuple of two arrays, such as a position and a height."""

    def make_space(self):
        line = spaces.Box(-1, 1, (1,), self.dtype)
        pair = spaces.Tuple([line, line])
        return spaces.Dict(super().make_space().spaces | {"achieved_goal": pair, "desired_goal": pair})

    def observe(self):
        observation = super().observe()
        pairs = {key: tuple(np.split(observation[key], 2)) for key in ("achieved_goal", "desired_goal")}
        return observation | {key: (one.copy(), other.copy()) for key, (one, other) in pairs.items()}

    def is_success(self, achieved_goal, desired_goal):
        if isinstance(achieved_goal, tuple):
            pair = achieved_goal, desired_goal
            achieved_goal, desired_goal = (np.concatenate(goal, axis=-1) for goal in pair)
        return super().is_success(achieved_goal, desired_goal)


class OneDimensionalGoals(Reach):
    """Goals of shape (1,), for which a squeeze would be wrong."""

    def make_space(self):
        line = spaces.Box(-1, 1, (1,), np.float32)
        return spaces.Dict({"observation": line, "achieved_goal": line, "desired_goal": line})

    def draw_start(self):
        return self.np_random.uniform(-1, 1, (2, 1)).astype(np.float32)

    def move(self, action):
        return (self.position + 0.2 * action[:1]).clip(-1, 1)
