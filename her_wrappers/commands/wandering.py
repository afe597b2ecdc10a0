"""Random policies, without and with correlation between successive actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from her_wrappers.commands.make import Policy

PERSISTENCE = 0.9
"""Correlation of successive actions; independent actions would hardly move the agent."""


def random_actions(space: spaces.Space[Any], seed: int) -> Policy:
    """Return a policy that samples the action space; ``seed`` seeds the space."""
    space.seed(seed)
    return lambda observation: space.sample()


def wandering(space: spaces.Space[Any], seed: int) -> Policy:
    """Return a policy of random actions; successive actions of a Box are correlated.

    Args:
        space: Action space of one environment.
        seed: Seed of the actions.
    """
    if not isinstance(space, spaces.Box):
        return random_actions(space, seed)
    rng = np.random.default_rng(seed)
    bounded = np.isfinite(space.low) & np.isfinite(space.high)
    low, high = np.where(bounded, space.low, -1.0), np.where(bounded, space.high, 1.0)
    drift = rng.normal(size=space.shape)

    def act(observation: Any) -> Any:
        nonlocal drift
        drift = PERSISTENCE * drift + np.sqrt(1 - PERSISTENCE**2) * rng.normal(size=space.shape)
        return np.clip((low + high + (high - low) * drift) / 2, space.low, space.high).astype(space.dtype)

    return act
