"""Validation of rewards."""

from __future__ import annotations

from typing import Any

import numpy as np

from her_wrappers.trees import NUMBERS, as_array


def as_reward(reward: Any, step: int) -> float:
    """Return a reward as a float.

    Args:
        reward: Value that the environment returned.
        step: Index of the step in its episode, for the message.

    Raises:
        ValueError: ``reward`` is not a single number.
    """
    try:
        number = as_array(reward)
    except (TypeError, ValueError, RuntimeError):
        number = np.asarray(None)
    if number.shape != () or number.dtype.kind not in NUMBERS:
        raise ValueError(f"reward must be one number, got {reward!r} at step {step}")
    return float(number)


def as_rewards(rewards: Any, count: int) -> np.ndarray:
    """Return the rewards of ``count`` environments as a (count,) array of numbers, without a cast.

    Args:
        rewards: (count,) array, tensor or list that the vector environment returned.
        count: Number of environments.

    Raises:
        ValueError: ``rewards`` does not have one number for each environment.
    """
    try:
        numbers = as_array(rewards)
    except (TypeError, ValueError, RuntimeError):
        numbers = np.asarray(None)
    if numbers.shape != (count,) or numbers.dtype.kind not in NUMBERS:
        raise ValueError(f"rewards must be ({count},) numbers, got {rewards!r}")
    return numbers
