"""Batches that repeat one transition, whose targets are known, and agents for them."""

import numpy as np
import torch

from her_agents.algorithms.dqn import DQN
from her_agents.algorithms.registry import ALGORITHMS
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


def make(algorithm, **options):
    """Return an agent of a class, or of an algorithm by name, for the transitions of `batch_for`."""
    algorithm = ALGORITHMS.get(algorithm, algorithm)
    task = BITS if algorithm is DQN else POINT
    return algorithm(task.observation_space, task.action_space, **options)


def batch_for(algorithm, **options):
    is_dqn = ALGORITHMS.get(algorithm, algorithm) is DQN
    return bit_transition(terminated=False) if is_dqn else point_transition(**options)


@torch.no_grad()
def set_output(network, *values):
    """Make a network return the same output for every input."""
    network.layers[-1].weight.zero_()
    network.layers[-1].bias.copy_(torch.tensor(values))
