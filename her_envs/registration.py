"""The ids of the bundled environments, and the functions that Gymnasium makes them with.

An entry point takes the options of the task and of `TaskEnv` together, so that
``gym.make("her_envs/BitFlipping-v0", n_bits=15, reward_type="dense")`` says all in one call.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import gymnasium as gym

from her_envs.bit_flipping import BitFlipping
from her_envs.counting import Counting
from her_envs.env import TaskEnv
from her_envs.point_reach import PointReach
from her_envs.task import GoalTask

_ENV_OPTIONS = inspect.signature(TaskEnv).parameters.keys() - {"task"}


def _make_env(task: type[GoalTask], /, **options: Any) -> TaskEnv:
    env_options = {name: options.pop(name) for name in _ENV_OPTIONS & options.keys()}
    return TaskEnv(task(**options), **env_options)


bit_flipping = partial(_make_env, BitFlipping)
counting = partial(_make_env, Counting)
point_reach = partial(_make_env, PointReach)

# Entry points are strings and options plain data, so a spec can be written to JSON.
ENTRY_POINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "her_envs/BitFlipping-v0": ("bit_flipping", {}),
    "her_envs/BitFlippingContinuous-v0": ("bit_flipping", {"continuous": True}),
    "her_envs/BitFlippingImage-v0": ("bit_flipping", {"observation": "image"}),
    "her_envs/PointReach-v0": ("point_reach", {}),
    "her_envs/Counting-v0": ("counting", {}),
}


def register_envs() -> None:
    """Register all bundled ids that are not registered yet."""
    for env_id, (name, options) in ENTRY_POINTS.items():
        if env_id not in gym.registry:
            gym.register(env_id, entry_point=f"{__name__}:{name}", kwargs=options)
