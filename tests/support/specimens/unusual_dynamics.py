"""Correct environments with unusual actions, dynamics, episodes and resets."""

import numpy as np
from gymnasium import spaces

from tests.support.specimens.reach import Reach


class ActsBy(Reach):
    """Actions are elements of the space ``actions``."""

    def __init__(self):
        super().__init__()
        self.action_space = self.actions

    def move(self, action):
        return super().move(np.asarray(self.direction(action), float))


class NumberedActions(ActsBy):
    actions = spaces.Discrete(4, start=1)

    def direction(self, action):
        return [(1, 0), (0, 1), (-1, 0), (0, -1)][action - 1]


class Switches(ActsBy):
    actions = spaces.MultiBinary(4)

    def direction(self, action):
        return action[:2].astype(int) - action[2:]


class DictActions(ActsBy):
    actions = spaces.Dict({"speed": spaces.Box(0, 1, (), np.float32), "turn": spaces.Discrete(4)})

    def direction(self, action):
        angle = action["turn"] * np.pi / 2
        return action["speed"] * np.array([np.cos(angle), np.sin(angle)])


class TupleActions(ActsBy):
    actions = spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (1,), np.float32)])

    def direction(self, action):
        return action[0] - 1, action[1][0]


class UnboundedActions(ActsBy):
    actions = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def direction(self, action):
        return np.tanh(action)


class IntegerActions(ActsBy):
    actions = spaces.Box(-3, 3, (2,), np.int32)

    def direction(self, action):
        return action / 3


class SeededByHand(Reach):
    """The noise is from a second generator, which reset seeds too."""

    noise = np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.noise = np.random.default_rng(seed)
        return super().reset(seed=seed)

    def move(self, action):
        return super().move(action + self.noise.normal(0, 0.2, 2))


class RandomCrash(Reach):
    """The episode terminates at random, independently of the goals."""

    def terminated(self, observation, info):
        return super().terminated(observation, info) or bool(self.np_random.random() < 0.05)


class OneStep(Reach):
    """The episode terminates after a single step."""

    horizon = 1

    def move(self, action):
        return super().move(4 * action)

    def terminated(self, observation, info):
        return True


class Momentum(Reach):
    """The velocity is hidden, and zero after a reset."""

    def draw_start(self):
        self.velocity = np.zeros(2)
        return super().draw_start()

    def move(self, action):
        self.velocity = 0.7 * self.velocity + 0.5 * action
        return super().move(self.velocity)


class StrictOptions(Reach):
    """reset raises ValueError for unknown options."""

    def reset(self, *, seed=None, options=None):
        if options and set(options) - {"goal"}:
            raise ValueError(f"unknown options {options}")
        observation, info = super().reset(seed=seed)
        if options:
            self.goal = np.float32(options["goal"])
            observation = self.observe()
            info = self.inform(observation)
        return observation, info


DYNAMICS = [
    NumberedActions, Switches, DictActions, TupleActions, UnboundedActions, IntegerActions,
    SeededByHand, RandomCrash, OneStep, Momentum, StrictOptions,
]  # fmt: skip
