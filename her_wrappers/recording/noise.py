"""add_noise: random deviations from the actions of a policy."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces


def add_noise(action: Any, space: spaces.Space[Any], noise: float, rng: np.random.Generator) -> Any:
    """Return an action with noise, so that recorded episodes also show how a policy corrects deviations.

    Args:
        action: Action of ``space``.
        space: Action space of one environment.
        noise: For a Box with bounds, the standard deviation of Gaussian noise, relative to half of the range
            of each component. For other spaces, the probability of a random action.
        rng: Source of the randomness.
    """
    if isinstance(space, spaces.Box) and space.is_bounded():
        deviation = noise * rng.standard_normal(space.shape) * (space.high - space.low) / 2
        return np.clip(action + deviation, space.low, space.high).astype(space.dtype)
    if rng.random() >= noise:
        return action
    space.seed(int(rng.integers(2**31)))
    return space.sample()
