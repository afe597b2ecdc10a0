"""Correct environments with unusual observations, actions, dynamics, rewards and infos."""

from __future__ import annotations

import time

import numpy as np
from gymnasium import spaces

from tests.support.specimens.reach import DenseReach, Reach
from tests.support.specimens.unusual_goals import SQUARE, goal_dict


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


class MixedObservation(Reach):
    elapsed = 0

    def make_space(self):
        parts = {"lamp": spaces.Discrete(3), "bits": spaces.MultiBinary(3), "place": SQUARE}
        return goal_dict(SQUARE, spaces.Dict(parts))

    def observe(self):
        bits = np.int8([self.elapsed >> i & 1 for i in range(3)])
        parts = {"lamp": np.int64(self.elapsed % 3), "bits": bits, "place": self.position.copy()}
        return super().observe() | {"observation": parts}


class TextInObservation(Reach):
    """A further key of the observation is a text."""

    def make_space(self):
        return goal_dict(SQUARE, instruction=spaces.Text(20))

    def observe(self):
        return super().observe() | {"instruction": "goright" if self.goal[0] > 0 else "goleft"}


class ReadOnlyArrays(Reach):
    """Returned arrays are read-only copies."""

    def observe(self):
        observation = super().observe()
        for array in observation.values():
            array.flags.writeable = False
        return observation


class KeepsReadOnlyState(Reach):
    """Returns its own state, as read-only arrays."""

    def observe(self):
        for array in (self.position, self.goal):
            array.flags.writeable = False
        return super().observe() | {"achieved_goal": self.position, "desired_goal": self.goal}


class Strided(Reach):
    """Observations are strided views of larger arrays."""

    def observe(self):
        return {key: np.repeat(value, 2)[::2] for key, value in super().observe().items()}


class DoubleObservation(Reach):
    def make_space(self):
        return goal_dict(SQUARE, spaces.Box(-1, 1, (2,), np.float64))

    def observe(self):
        return super().observe() | {"observation": self.position.astype(np.float64)}


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


class PairOfActions(ActsBy):
    actions = spaces.MultiDiscrete([3, 3])

    def direction(self, action):
        return action - 1


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
    """Draws noise from a second generator, which reset seeds too."""

    noise = np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.noise = np.random.default_rng(seed)
        return super().reset(seed=seed)

    def move(self, action):
        return super().move(action + self.noise.normal(0, 0.2, 2))


class RandomHorizon(Reach):
    def draw_start(self):
        self.horizon = int(self.np_random.integers(5, 30))
        return super().draw_start()


class RandomCrash(Reach):
    """Terminates at random, independently of the goals."""

    def terminated(self, observation, info):
        return super().terminated(observation, info) or bool(self.np_random.random() < 0.05)


class Slow(Reach):
    def move(self, action):
        time.sleep(0.0005)
        return super().move(action)


class SlowReward(Reach):
    """compute_reward loops over the rows."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        if np.ndim(achieved_goal) == 1:
            return super().compute_reward(achieved_goal, desired_goal, info)
        rows = zip(achieved_goal, desired_goal, strict=True)
        return np.array([super(SlowReward, self).compute_reward(*row, {}) for row in rows], dtype=float)


class OneStep(Reach):
    """The episode terminates after a single step."""

    horizon = 1

    def move(self, action):
        return super().move(4 * action)

    def terminated(self, observation, info):
        return True


class OneStepTruncated(OneStep):
    def terminated(self, observation, info):
        return Reach.terminated(self, observation, info)


class Momentum(Reach):
    """The velocity is hidden, and zero after a reset."""

    def draw_start(self):
        self.velocity = np.zeros(2)
        return super().draw_start()

    def move(self, action):
        self.velocity = 0.7 * self.velocity + 0.5 * action
        return super().move(self.velocity)


class ActsOneStepLater(Reach):
    def draw_start(self):
        self.pending = np.zeros(2)
        return super().draw_start()

    def move(self, action):
        now, self.pending = self.pending, np.array(action)
        return super().move(now)


class StrictOptions(Reach):
    """Rejects options that it does not know."""

    def reset(self, *, seed=None, options=None):
        if options and set(options) - {"goal"}:
            raise ValueError(f"unknown options {options}")
        observation, info = super().reset(seed=seed)
        if options:
            self.goal = np.float32(options["goal"])
            observation = self.observe()
            info = self.inform(observation)
        return observation, info


class GoalsOfAList(Reach):
    places = np.float32([[0.8, 0.8], [-0.8, 0.8], [0.8, -0.8]])

    def draw_start(self):
        position, _ = super().draw_start()
        return position, self.places[self.np_random.integers(3)].copy()


class SquaredDistance(DenseReach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -np.square(achieved_goal - desired_goal).sum(-1)


class ExponentialReward(DenseReach):
    """Rewards between 0 and 1, as in the DeepMind control suite."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return np.exp(-np.square(self.distance(achieved_goal, desired_goal)))


class IntegerReward(Reach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal).astype(np.int32) - 1


class HundredForSuccess(Reach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return np.where(self.is_success(achieved_goal, desired_goal), 100.0, 0.0)


class FurtherParameter(Reach):
    """compute_reward has another parameter, as in highway-env's parking."""

    def compute_reward(self, achieved_goal, desired_goal, info, p=0.5):
        return super().compute_reward(achieved_goal, desired_goal, info) * (2 * p)


class StaticReward(Reach):
    @staticmethod
    def compute_reward(achieved_goal, desired_goal, info):
        return (np.linalg.norm(achieved_goal - desired_goal, axis=-1) < 0.25) - 1.0


class RewardIsAnAttribute(Reach):
    """compute_reward is a function that the constructor assigns, as in panda-gym."""

    def __init__(self):
        super().__init__()
        self.compute_reward = StaticReward.compute_reward


class WeightedReward(DenseReach):
    weights = np.float32([1.0, 0.3])

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -np.power(np.dot(np.abs(achieved_goal - desired_goal), self.weights), 0.5)


class SelectableReward(Reach):
    reward_type = "sparse"

    def compute_reward(self, achieved_goal, desired_goal, info):
        if self.reward_type not in {"sparse", "dense"}:
            raise ValueError(f"unknown reward_type {self.reward_type!r}")
        return super().compute_reward(achieved_goal, desired_goal, info)


class SuccessOfTwoParts(Reach):
    def is_success(self, achieved_goal, desired_goal):
        difference = np.abs(achieved_goal - desired_goal)
        return (difference[..., 0] < 0.3) & (difference[..., 1] < 0.2)


class CrashInInfo(Reach):
    """compute_terminated reads a crash from the info, and works without the info."""

    def inform(self, observation):
        return super().inform(observation) | {"crashed": bool(np.abs(self.position).max() > 0.97)}

    def compute_terminated(self, achieved_goal, desired_goal, info):
        rows = [info] if isinstance(info, dict) else info
        crashed = np.array([bool(row.get("crashed", False)) for row in rows])
        reached = self.is_success(achieved_goal, desired_goal)
        return reached | (crashed if np.ndim(reached) else crashed[0])


class RichInfo(Reach):
    def inform(self, observation):
        return super().inform(observation) | {
            "name": "reach",
            "nothing": None,
            "terms": {"distance": float(self.distance(self.position, self.goal)), "action": 0.0},
            "contact": np.zeros((2, 3), np.float32),
            "TimeLimit.truncated": False,
        }


class SuccessIsNumpy(Reach):
    """Rewards and flags are NumPy scalars."""

    def terminated(self, observation, info):
        return np.bool_(super().terminated(observation, info))

    def reward(self, observation, info):
        return np.float32(super().reward(observation, info))


PARTS = [
    ImageObservation, EmptyObservation, ActionMask, MixedObservation, TextInObservation, ReadOnlyArrays,
    KeepsReadOnlyState, Strided, DoubleObservation, NumberedActions, PairOfActions, Switches,
    DictActions, TupleActions, UnboundedActions, IntegerActions, SeededByHand, RandomHorizon,
    RandomCrash, Slow, SlowReward, OneStep, OneStepTruncated, Momentum, ActsOneStepLater, StrictOptions,
    GoalsOfAList, SquaredDistance, ExponentialReward, IntegerReward, HundredForSuccess, FurtherParameter,
    StaticReward, RewardIsAnAttribute, WeightedReward, SelectableReward, SuccessOfTwoParts, CrashInInfo,
    RichInfo, SuccessIsNumpy,
]  # fmt: skip
