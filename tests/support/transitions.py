"""Batches that repeat one transition, whose targets are known."""

import numpy as np

from her_envs import BitFlipping, PointReach
from her_wrappers import Batch

BITS = BitFlipping(n_bits=2)
POINT = PointReach()


def repeated(before, after, goal, action, reward, *, terminated, gamma=0.5, rows=64):
    """Return a batch of one transition, repeated ``rows`` times."""

    def observations(seen):
        seen, wanted = (np.tile(values, (rows, 1)) for values in (seen, goal))
        return {"observation": seen, "achieved_goal": seen.copy(), "desired_goal": wanted}

    return Batch(
        observations=observations(before),
        actions=np.tile(action, (rows, *[1] * np.ndim(action))) if np.ndim(action) else np.full(rows, action),
        rewards=np.full(rows, reward, np.float32),
        next_observations=observations(after),
        terminations=np.full(rows, terminated),
        truncations=np.zeros(rows, bool),
        discounts=np.full(rows, 0.0 if terminated else gamma, np.float32),
        weights=np.ones(rows, np.float32),
        relabeled=np.zeros(rows, bool),
        index=np.arange(rows),
    )


def bit_transition(*, terminated):
    """Return a batch that repeats one transition of BitFlipping, from the bits 10 to 11."""
    reward = 0.0 if terminated else -1.0
    return repeated(np.int8([1, 0]), np.int8([1, 1]), np.int8([1, 1]), 1, reward, terminated=terminated)


def point_transition(*, terminated=False, reward=-1.0, gamma=0.5):
    """Return a batch that repeats one transition of PointReach, a step to the right."""
    before, after, goal, action = np.float32([[0.2, 0.5], [0.25, 0.5], [0.6, 0.5], [1.0, 0.0]])
    return repeated(before, after, goal, action, reward, terminated=terminated, gamma=gamma)
