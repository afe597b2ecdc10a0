"""All bundled environments, with default and other options, for tests that run on each of them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from her_envs import BitFlipping, Counting, PointMaze, PointPush, PointReach, TaskEnv
from her_envs.registration import ENTRY_POINTS

BIT_FLIPPING = "her_envs/BitFlipping-v0"
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((env_id, {}) for env_id in ENTRY_POINTS),
    (BIT_FLIPPING, {"observation": "integer"}),
    (BIT_FLIPPING, {"n_bits": 1, "continuous": True, "max_steps": 2}),
    (BIT_FLIPPING, {"n_bits": 17, "goal": "ones"}),
    (BIT_FLIPPING, {"observation": "image", "channel_first": False, "n_bits": 2}),
    (BIT_FLIPPING, {"observation": "image", "continuous": True, "n_bits": 50}),
    (BIT_FLIPPING, {"observation": "integer", "continuous": True, "n_bits": 62}),
    ("her_envs/BitFlippingImage-v0", {"goal": "ones", "channel_first": False}),
    ("her_envs/BitFlippingContinuous-v0", {"goal": "ones"}),
    ("her_envs/PointReach-v0", {"success_radius": 0.3, "step_size": 0.2}),
    ("her_envs/PointReach-v0", {"terminate_on_success": True, "max_steps": 7}),
    ("her_envs/PointMaze-v0", {"layout": "open", "success_radius": 0.5, "step_size": 1.0}),
    ("her_envs/PointMaze-v0", {"layout": ["..#.", "#..."], "terminate_on_success": True}),
    ("her_envs/PointMaze-v0", {"layout": "large", "step_size": 1000.0, "max_steps": 60}),
    ("her_envs/PointPush-v0", {"success_radius": 0.3, "terminate_on_success": True}),
    ("her_envs/Counting-v0", {"length": 3, "terminate_on_success": False}),
]
ids = [f"{env_id}-{options}" for env_id, options in VARIANTS]


def make(env_id: str, **options: Any) -> TaskEnv:
    """Make a bundled environment without Gymnasium's wrappers."""
    env = gym.make(env_id, **options).unwrapped
    assert isinstance(env, TaskEnv)
    return env


# Small tasks, whose episodes succeed, end and restart within few steps
TASKS = [
    PointMaze(layout=["..#", "..."], success_radius=0.5, step_size=1.5),
    PointPush(success_radius=0.2),
    BitFlipping(n_bits=3),
    BitFlipping(n_bits=2, continuous=True),
    BitFlipping(n_bits=3, observation="integer"),
    BitFlipping(n_bits=2, observation="image"),
    PointReach(success_radius=0.4, step_size=0.5),
    Counting(length=4),
]
