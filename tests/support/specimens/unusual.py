"""Correct environments in wrappers and vector environments, and the table of all unusual environments."""

from functools import partial

import gymnasium as gym
import numpy as np
from gymnasium import wrappers
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from her_wrappers import EpisodeRecorder, GoalEnvChecker
from her_wrappers.repairs import BooleanSuccess, CastObservation, CopyObservation
from tests.support.specimens import unusual_dynamics, unusual_goals, unusual_observations, unusual_rewards
from tests.support.specimens.broken_episodes import FlagIsFloat, ReusesArrays
from tests.support.specimens.broken_spaces import Float64InFloat32Space
from tests.support.specimens.correct_goals import ImageGoals
from tests.support.specimens.reach import DenseReach, Reach


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
    space = gym.spaces.Dict(env.observation_space.spaces | {"more": env.observation_space["observation"]})
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
    "vector of dict goals": lambda: SyncVectorEnv([unusual_goals.CellAndOffset] * 2),
    "vector of images": lambda: SyncVectorEnv([ImageGoals] * 2, autoreset_mode=AutoresetMode.SAME_STEP),
    "vector of discrete goals": lambda: SyncVectorEnv(
        [unusual_goals.NumberedCells] * 2, autoreset_mode=AutoresetMode.DISABLED
    ),
    "vector with statistics": lambda: wrappers.vector.RecordEpisodeStatistics(SyncVectorEnv([Reach] * 3)),
    "vector of one": lambda: SyncVectorEnv([unusual_dynamics.Momentum]),
}

UNWRAPPED = [
    *unusual_goals.GOALS,
    *unusual_observations.OBSERVATIONS,
    *unusual_dynamics.DYNAMICS,
    *unusual_rewards.REWARDS,
]

UNUSUAL = {specimen.__name__: specimen for specimen in UNWRAPPED} | WRAPPED
"""Functions that make correct environments with unusual properties, by name."""
