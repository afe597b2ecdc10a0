"""Episodes and reward functions for the benchmarks of buffers and recorders.

The batches show whether relabeling is correct, since recorded goals are never achieved, and the first
component of the achieved goal increases in every step of an episode.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from her_wrappers import Episode, EpisodeRecorder

OBSERVATION, GOAL, ACTION = 25, 3, 4
HORIZON = 50
TOLERANCE = 0.05
UNREACHED = 5.0
"""First component of all recorded goals; the first component of achieved goals is always below 2."""

Floats = NDArray[np.float32]


def observation_space(dtype: type[np.floating[Any]]) -> spaces.Dict:
    """Return the observation space with components of ``dtype``."""
    sizes = {"observation": OBSERVATION, "achieved_goal": GOAL, "desired_goal": GOAL}
    return spaces.Dict({key: spaces.Box(-np.inf, np.inf, (size,), dtype) for key, size in sizes.items()})


OBSERVATION_SPACE = observation_space(np.float32)
ACTION_SPACE = spaces.Box(-1, 1, (ACTION,), np.float32)


def compute_reward(achieved_goal: Floats, desired_goal: Floats, info: object = None) -> Floats:
    """Return 0 for goals that are equal up to a tolerance, else -1, (B, G), (B, G) -> (B,)."""
    apart = achieved_goal - desired_goal
    missed: NDArray[np.bool_] = np.vecdot(apart, apart) > TOLERANCE**2
    return -missed.astype(np.float32)


def never_reached(achieved_goal: Floats, desired_goal: Floats, info: object) -> Floats:
    """Return -1 for every goal, (B, G), (B, G) -> (B,)."""
    return np.full(len(achieved_goal), -1, np.float32)


def make_episodes(count: int, seed: int = 0) -> list[Episode]:
    """Return random walks; observations start with the achieved goal, as in the Fetch environments."""
    rng = np.random.default_rng(seed)
    return [_make_episode(rng) for _ in range(count)]


def _make_episode(rng: np.random.Generator) -> Episode:
    achieved = rng.normal(0, 0.02, (HORIZON + 1, GOAL)).cumsum(axis=0).astype(np.float32)
    achieved[:, 0] = np.linspace(0, 1, HORIZON + 1)
    observation = rng.normal(size=(HORIZON + 1, OBSERVATION)).astype(np.float32)
    observation[:, :GOAL] = achieved
    desired = np.full((HORIZON + 1, GOAL), UNREACHED, np.float32)
    desired[:, 1:] = rng.normal(size=GOAL - 1)
    return Episode(
        {"observation": observation, "achieved_goal": achieved, "desired_goal": desired},
        rng.uniform(-1, 1, (HORIZON, ACTION)).astype(np.float32),
        compute_reward(achieved[1:], desired[1:]),
        terminated=False,
        truncated=True,
    )


def record_episodes(env: gym.Env[Any, Any], count: int) -> list[Episode]:
    """Record episodes of random actions."""
    episodes: list[Episode] = []
    recorder = EpisodeRecorder(env, episodes.append)
    env.action_space.seed(0)
    recorder.reset(seed=0)
    while len(episodes) < count:
        _, _, terminated, truncated, _ = recorder.step(env.action_space.sample())
        if terminated or truncated:
            recorder.reset()
    return episodes
