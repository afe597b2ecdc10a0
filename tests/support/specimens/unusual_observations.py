"""Correct environments with unusual observations."""

import numpy as np
from gymnasium import spaces

from tests.support.specimens.reach import SQUARE, Reach, goal_dict


class ImageObservation(Reach):
    def make_space(self):
        return goal_dict(SQUARE, spaces.Box(0, 255, (16, 16), np.uint8))

    def observe(self):
        image = np.zeros((16, 16), np.uint8)
        image[tuple(np.floor((self.position + 1) * 7.999).astype(int))] = 255
        return super().observe() | {"observation": image}


class EmptyObservation(Reach):
    """The observation is empty; only the goals contain information."""

    def make_space(self):
        return goal_dict(SQUARE, spaces.Box(-1, 1, (0,), np.float32))

    def observe(self):
        return super().observe() | {"observation": np.zeros(0, np.float32)}


class ActionMask(Reach):
    """The observation contains a mask of the actions that have an effect."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Discrete(4)

    def make_space(self):
        return goal_dict(SQUARE, action_mask=spaces.MultiBinary(4))

    def mask(self):
        return np.int8([*(self.position < 0.9), *(self.position > -0.9)])

    def observe(self):
        return super().observe() | {"action_mask": self.mask()}

    def move(self, action):
        step = np.zeros(2)
        step[action % 2] = (1 if action < 2 else -1) * self.mask()[action]
        return super().move(step)


class Strided(Reach):
    """Observations are strided views of larger arrays."""

    def observe(self):
        return {key: np.repeat(value, 2)[::2] for key, value in super().observe().items()}


OBSERVATIONS = [
    ImageObservation, EmptyObservation, ActionMask, Strided,
]  # fmt: skip
