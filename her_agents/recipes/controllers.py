"""Scripted controllers of simulated arms, whose episodes are demonstrations.

A controller is a function of the observation alone, so an agent can imitate it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

OPEN, CLOSED = 1, -1  # action of the fingers


def fetch_pick_and_place(observation: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return an action, (4,) float32, in FetchPickAndPlace-v4: approach from above, grasp, carry.

    Args:
        observation: Observation of the environment.
    """
    values, goal = observation["observation"], observation["desired_goal"]
    gripper, block, width = values[:3], values[3:6], values[9] + values[10]
    offset = block - gripper
    if np.linalg.norm(offset) < 0.015:
        if width > 0.052:  # the fingers do not touch the block yet
            return _move(np.zeros(3), CLOSED)
        return _move(10 * (goal - block), CLOSED)
    is_above = np.linalg.norm(offset[:2]) < 0.012
    offset[2] += 0 if is_above else 0.05
    return _move(10 * offset, OPEN)


def _move(velocity: Any, fingers: float) -> np.ndarray:
    return np.append(np.clip(velocity, -1, 1), fingers).astype(np.float32)
