"""Values: rewards and infos as environments give them, and the arrays that they become."""

from __future__ import annotations

from typing import Any

import numpy as np

from her_wrappers.trees import NUMBERS, STRINGS


def as_reward(reward: Any, step: int) -> float:
    """Return a reward as a float.

    Raises:
        ValueError: It is not one number.
    """
    try:
        number = np.asarray(reward)
    except (TypeError, ValueError, RuntimeError):
        number = np.asarray(None)
    if number.shape != () or number.dtype.kind not in NUMBERS:
        raise ValueError(f"reward must be one number, got {reward!r} at step {step}")
    return float(number)


def as_info(key: str, value: Any, where: str) -> np.ndarray:
    """Return a copy of an info.

    Raises:
        ValueError: It is neither numbers nor strings.
    """
    try:
        array = np.array(value)
    except (TypeError, ValueError, RuntimeError):
        array = np.array(None)
    if array.dtype.kind not in NUMBERS + STRINGS:
        raise ValueError(f"info {key!r} must be numbers or strings of one shape, got {value!r} {where}")
    return array


def kind_of(value: np.ndarray) -> str:
    """Return what the values of one info have in common."""
    return f"{'strings' if value.dtype.kind in 'US' else 'numbers'} of shape {value.shape}"
