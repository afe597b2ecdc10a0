"""Spaces of several kinds, and episodes whose images are both observation and achieved goal."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from her_wrappers import Episode, HindsightReplayBuffer


def image_episode(number, length, *, apart=False):
    """Return an episode whose observations equal the achieved goals, or differ with ``apart``."""
    rng = np.random.default_rng(number)
    pictures = rng.integers(256, size=(length + 1, 1, 36, 36), dtype=np.uint8)
    goal = np.repeat(rng.integers(256, size=(1, 1, 36, 36), dtype=np.uint8), length + 1, axis=0)
    observations = {
        "observation": pictures + 1 if apart else pictures,
        "achieved_goal": pictures,
        "desired_goal": goal,
    }
    return Episode(observations, np.zeros(length, np.int64), np.full(length, -1.0), False, True)


def image_reward(achieved, desired, info):
    return -1.0 + (achieved == desired).all((1, 2, 3))


def image_buffer(**options):
    picture = spaces.Box(0, 255, (1, 36, 36), np.uint8)
    space = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), picture))

    return HindsightReplayBuffer(
        space, spaces.Discrete(3), compute_reward=image_reward, termination="keep", **options
    )


BOX = spaces.Box(-1, 1, (3,), np.float32)
ODD_SPACES = {
    "discrete": (spaces.Discrete(9), spaces.Discrete(9)),
    "image": (
        spaces.Box(0, 255, (1, 6, 5), np.uint8),
        spaces.Box(0, 255, (1, 6, 5), np.uint8),
    ),
    "multi": (spaces.MultiBinary((2, 3)), spaces.MultiDiscrete([3, 4])),
    "nested": (
        spaces.Dict(
            camera=spaces.Box(0, 255, (4, 4), np.uint8), joints=spaces.Tuple([BOX, spaces.Discrete(3)])
        ),
        BOX,
    ),
    "half": (spaces.Box(-1, 1, (), np.float16), spaces.Box(-1, 1, (1, 1), np.float64)),
}


def random_tree(space, rows):
    """Return ``rows`` samples of a space, stacked leaf by leaf."""
    samples = [space.sample() for _ in range(rows)]
    if isinstance(space, spaces.Dict):
        return {key: random_tree(part, rows) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(random_tree(part, rows) for part in space)
    return np.array(samples, space.dtype)
