"""Ids and entry points of the bundled environments.

An entry point takes the options of the task and the options of `TaskEnv`, for example
``gym.make("her_envs/BitFlipping-v0", n_bits=15, reward_type="dense")``. ``gym.make_vec`` takes the same
options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym

from her_envs.bit_flipping import BitFlipping
from her_envs.counting import Counting
from her_envs.env import TaskEnv
from her_envs.point_maze import PointMaze
from her_envs.point_push import PointPush
from her_envs.point_reach import PointReach
from her_envs.task import GoalTask
from her_envs.vector_env import TaskVectorEnv


def _make(env: type[Any], task: type[GoalTask], /, **options: Any) -> Any:
    names = inspect.signature(env).parameters.keys() - {"task"}
    env_options = {name: options.pop(name) for name in names & options.keys()}
    return env(task(**options), **env_options)


def _entry_points(task: type[GoalTask]) -> tuple[Callable[..., TaskEnv], Callable[..., TaskVectorEnv]]:
    return partial(_make, TaskEnv, task), partial(_make, TaskVectorEnv, task)


bit_flipping, bit_flipping_vector = _entry_points(BitFlipping)
counting, counting_vector = _entry_points(Counting)
point_maze, point_maze_vector = _entry_points(PointMaze)
point_push, point_push_vector = _entry_points(PointPush)
point_reach, point_reach_vector = _entry_points(PointReach)

# Entry points are strings and options are plain data, so that specs can be written to JSON.
ENTRY_POINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "her_envs/BitFlipping-v0": ("bit_flipping", {}),
    "her_envs/BitFlippingContinuous-v0": ("bit_flipping", {"continuous": True}),
    "her_envs/BitFlippingImage-v0": ("bit_flipping", {"observation": "image"}),
    "her_envs/PointReach-v0": ("point_reach", {}),
    "her_envs/PointMaze-v0": ("point_maze", {}),
    "her_envs/PointPush-v0": ("point_push", {}),
    "her_envs/Counting-v0": ("counting", {}),
}


def register_envs() -> None:
    """Register all bundled ids that are not registered yet."""
    for env_id, (name, options) in ENTRY_POINTS.items():
        if env_id not in gym.registry:
            gym.register(
                env_id,
                entry_point=f"{__name__}:{name}",
                vector_entry_point=f"{__name__}:{name}_vector",
                kwargs=options,
            )
