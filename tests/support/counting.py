"""Counting episodes: every state names its episode and its step; relabeling answers become arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from her_wrappers import Episode, HindsightReplayBuffer

COUNTS = spaces.Box(-np.inf, np.inf, (2,), np.float64)
SPACE = spaces.Dict({"observation": COUNTS, "achieved_goal": COUNTS, "desired_goal": COUNTS})
ACTIONS = spaces.Box(-np.inf, np.inf, (1,), np.float64)
DESIRED = -1.0
"""Desired goals have this step, which no state has: only relabeled steps succeed."""


def compute_reward(achieved, desired, info):
    """0 where the same state of the same episode is reached, else -1."""
    return -1.0 + (achieved == desired).all(-1)  # in this order, tensors of bools can be added too


def compute_terminated(achieved, desired, info):
    """Where it is reached."""
    return (achieved == desired).all(-1)


def counting_episode(number: int, length: int, *, terminated: bool = False, **changes: Any) -> Episode:
    """Episode ``number``: state t is (number, t), action t is number + t / 1000."""
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
    """An empty buffer for counting episodes."""
    defaults = {"compute_reward": compute_reward, "compute_terminated": compute_terminated, "seed": 0}
    return HindsightReplayBuffer(SPACE, ACTIONS, **defaults | options)
