"""Counting episodes: the values of each state are the numbers of its episode and step."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from her_wrappers import Episode, HindsightReplayBuffer

COUNTS = spaces.Box(-np.inf, np.inf, (2,), np.float64)
SPACE = spaces.Dict({"observation": COUNTS, "achieved_goal": COUNTS, "desired_goal": COUNTS})
ACTIONS = spaces.Box(-np.inf, np.inf, (1,), np.float64)
DESIRED = -1.0
"""Step number of the desired goals. No state has it, so only relabeled steps achieve their goal."""


def compute_reward(achieved, desired, info):
    """Return 0 where the achieved goal equals the desired goal, else -1."""
    return -1.0 + (achieved == desired).all(-1)  # in this order, the sum is defined for tensors of bools


def compute_terminated(achieved, desired, info):
    """Return whether the achieved goal equals the desired goal."""
    return (achieved == desired).all(-1)


def counting_episode(number: int, length: int, *, terminated: bool = False, **changes: Any) -> Episode:
    """Return episode ``number``: state t is (number, t), action t is number + t / 1000."""
    counts = np.stack([np.full(length + 1, float(number)), np.arange(length + 1.0)], axis=1)
    parts = {
        "observations": {
            "observation": counts,
            "achieved_goal": counts.copy(),
            "desired_goal": np.tile([number, DESIRED], (length + 1, 1)),
        },
        "actions": (number + np.arange(length) / 1000)[:, None],
        "rewards": np.full(length, -1.0),
        "terminated": terminated,
        "truncated": not terminated,
    }
    return Episode(**parts | changes)


def counting_buffer(**options: Any) -> HindsightReplayBuffer:
    """Return an empty buffer for counting episodes."""
    defaults = {"compute_reward": compute_reward, "compute_terminated": compute_terminated, "seed": 0}
    return HindsightReplayBuffer(SPACE, ACTIONS, **defaults | options)
