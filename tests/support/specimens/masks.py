"""Correct environments that mask actions, in some of which an excluded action raises an error."""

import numpy as np
from gymnasium import spaces

from tests.support.specimens.reach import SQUARE, Reach, goal_dict


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


class Strict(ActionMask):
    """The mask is in the observation."""

    def move(self, action):
        assert self.mask()[action], action
        return super().move(action)


class MaskInInfo(Strict):
    """The mask is in the infos."""

    make_space, observe = Reach.make_space, Reach.observe

    def inform(self, observation):
        return super().inform(observation) | {"action_mask": self.mask()}


class MaskMethod(Strict):
    """The mask is the result of a method, as sb3-contrib expects."""

    make_space, observe = Reach.make_space, Reach.observe

    def action_masks(self):
        return self.mask().astype(bool)
