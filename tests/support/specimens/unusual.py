"""Correct environments with unusual actions, dynamics, observations, rewards and infos, or in wrappers."""

from functools import partial

import numpy as np
from gymnasium import spaces, wrappers
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from her_wrappers import EpisodeRecorder, GoalEnvChecker
from her_wrappers.repairs import BooleanSuccess, CastObservation, CopyObservation
from tests.support.specimens.broken_episodes import ReusesArrays
from tests.support.specimens.broken_spaces import Float64InFloat32Space
from tests.support.specimens.broken_success import FlagIsFloat
from tests.support.specimens.masks import ActionMask
from tests.support.specimens.reach import SQUARE, DenseReach, Reach, from_infos, goal_dict
from tests.support.specimens.unusual_goals import GOALS, CellAndOffset, ImageGoals, MaskedGoal, UnboundedGoals


class ActsBy(Reach):
    """Actions are elements of a space, and a function computes the direction of the move."""

    def __init__(self, space, direction):
        super().__init__()
        self.action_space, self.direction = space, direction

    def move(self, action):
        return super().move(np.asarray(self.direction(action), float))


def box(high, shape=(2,), dtype=np.float32):
    return spaces.Box(-high, high, shape, dtype)


DIRECTIONS = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])
ACTIONS = {
    "numbered actions": (spaces.Discrete(4, start=1), lambda action: DIRECTIONS[action - 1]),
    "switches": (spaces.MultiBinary(4), lambda action: action[:2].astype(int) - action[2:]),
    "dict actions": (
        spaces.Dict(speed=box(1, ()), turn=spaces.Discrete(4)),
        lambda action: action["speed"] * DIRECTIONS[action["turn"]],
    ),
    "tuple actions": (
        spaces.Tuple([spaces.Discrete(3), box(1, ())]),
        lambda action: (action[0] - 1, action[1]),
    ),
    "unbounded actions": (box(np.inf), np.tanh),
    "integer actions": (box(3, dtype=np.int32), lambda action: action / 3),
}


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

    def use_options(self, options):
        if set(options or {}) - {"goal"}:
            raise ValueError(f"unknown options {options}")
        if options:
            self.goal = np.float32(options["goal"])


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


class Strided(Reach):
    """Observations are strided views of larger arrays."""

    def observe(self):
        return {key: np.repeat(value, 2)[::2] for key, value in super().observe().items()}


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


class SelectableReward(Reach):
    reward_type = "sparse"

    def compute_reward(self, achieved_goal, desired_goal, info):
        if self.reward_type not in {"sparse", "dense"}:
            raise ValueError(f"unknown reward_type {self.reward_type!r}")
        return super().compute_reward(achieved_goal, desired_goal, info)


class CrashInInfo(Reach):
    """compute_terminated reads a crash from the info, and works without the info."""

    def inform(self, observation):
        return super().inform(observation) | {"crashed": bool(np.abs(self.position).max() > 0.97)}

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) | from_infos("crashed", info, False)


def inside(make, *layers):
    """Return a function that makes an environment in the given wrappers, the innermost first."""

    def wrapped():
        env = make()
        for layer in layers:
            env = layer(env)
        return env

    return wrapped


limited = partial(wrappers.TimeLimit, max_episode_steps=15)
rescaled = partial(wrappers.RescaleAction, min_action=np.float32(0), max_action=np.float32(1))
sticky = partial(wrappers.StickyAction, repeat_action_probability=0.25)
timed = partial(wrappers.TimeAwareObservation, flatten=False)


def with_further_key(env):
    """Add a copy of the observation as another key."""
    space = spaces.Dict(env.observation_space.spaces | {"more": env.observation_space["observation"]})
    return wrappers.TransformObservation(env, lambda obs: obs | {"more": obs["observation"].copy()}, space)


WRAPPED = {
    "two limits and statistics": inside(Reach, limited, wrappers.RecordEpisodeStatistics, limited),
    "order and passive checker": inside(Reach, wrappers.PassiveEnvChecker, wrappers.OrderEnforcing, limited),
    "rescaled and clipped actions": inside(Reach, rescaled, wrappers.ClipAction, limited),
    "sticky actions": inside(Reach, sticky, limited),
    "autoreset": inside(Reach, limited, wrappers.Autoreset),
    "a further key": inside(Reach, with_further_key, limited),
    "time in the observation": inside(Reach, limited, timed),
    "recorder": inside(Reach, EpisodeRecorder, limited),
    "passive checker of her_wrappers": inside(DenseReach, GoalEnvChecker, wrappers.RecordEpisodeStatistics),
    "repaired arrays": inside(ReusesArrays, CopyObservation, limited),
    "repaired dtypes": inside(Float64InFloat32Space, CastObservation),
    "repaired flag": inside(FlagIsFloat, BooleanSuccess, limited, wrappers.RecordEpisodeStatistics),
    "vector of dict goals": lambda: SyncVectorEnv([CellAndOffset] * 2),
    "vector of images": lambda: SyncVectorEnv([ImageGoals] * 2, autoreset_mode=AutoresetMode.SAME_STEP),
    "vector of discrete goals": lambda: SyncVectorEnv(
        [GOALS["numbered cells"]] * 2, autoreset_mode=AutoresetMode.DISABLED
    ),
    "vector with statistics": lambda: wrappers.vector.RecordEpisodeStatistics(SyncVectorEnv([Reach] * 3)),
    "vector of one": lambda: SyncVectorEnv([Momentum]),
}

UNWRAPPED = [
    CellAndOffset, MaskedGoal, UnboundedGoals, ImageObservation, EmptyObservation, ActionMask, Strided,
    SeededByHand, RandomCrash, OneStep, Momentum, StrictOptions, FurtherParameter, StaticReward,
    RewardIsAnAttribute, SelectableReward, CrashInInfo,
]  # fmt: skip

UNUSUAL = {specimen.__name__: specimen for specimen in UNWRAPPED} | WRAPPED | GOALS
UNUSUAL |= {name: partial(ActsBy, *options) for name, options in ACTIONS.items()}
"""Functions that make correct environments with unusual properties, by name."""
