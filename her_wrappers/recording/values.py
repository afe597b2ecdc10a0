"""Validation of rewards, flags and batches that an environment or a caller of ``add`` gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from her_wrappers.data.infos import Where
from her_wrappers.data.spaces import LeafSpec
from her_wrappers.data.trees import NUMBERS, as_leaf, try_as_array

BATCH_HINT = (
    ". If the environment steps several copies at once, make it a gymnasium.vector.VectorEnv with num_envs "
    "and metadata['autoreset_mode'], and record it with VectorEpisodeRecorder; or call add() of the buffer "
    "with arrays that have a row for each copy, also for obs"
)
"""End of the error message if an environment that is not a vector environment returns a batch."""


def as_reward(reward: Any, step: int) -> float:
    """Return the reward of a step as a float, or raise ValueError if it is not a single number."""
    if type(reward) is float:  # faster
        return reward
    number = try_as_array(reward)
    if number.shape != () or number.dtype.kind not in NUMBERS:
        hint = BATCH_HINT if number.size > 1 else ""
        raise ValueError(f"reward must be one number, got {reward!r} at step {step}{hint}")
    return float(number)


def as_rewards(rewards: Any, count: int) -> np.ndarray:
    """Return ``rewards`` as an array, or raise ValueError unless they are numbers of shape (count,)."""
    numbers = try_as_array(rewards)
    if numbers.shape != (count,) or numbers.dtype.kind not in NUMBERS:
        raise ValueError(f"rewards must be numbers of shape ({count},), one per environment, got {rewards!r}")
    return numbers


def as_flags(name: str, values: Any, count: int, error: type[Exception] = TypeError) -> np.ndarray:
    """Return ``values``, called ``name`` in messages, as (count,) bools, or raise ``error``."""
    array = try_as_array(values)
    if array.dtype != np.bool_ or array.shape != (count,):
        raise error(f"{name} must be bools of shape ({count},), one per environment, got {values!r}")
    return array


def as_batch(leaf: LeafSpec, value: Any, *, count: int, where: Where, rounding: bool = False) -> np.ndarray:
    """Return ``value`` as an array (count, ...) in the leaf's dtype; an error names the first bad row."""
    shape = (count, *leaf.shape)
    try:
        return as_leaf(f"{leaf.name} of all environments", value, shape, leaf.dtype, rounding=rounding)
    except ValueError:
        has_rows = isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0
        for i, row in enumerate(value if has_rows and len(value) == count else ()):
            leaf.check(row, where(i), rounding=rounding)
        raise
