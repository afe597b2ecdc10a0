"""Given priorities: what users give as priorities, and as the transitions that get them, made arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

LARGEST = float(np.finfo(np.float32).max)
"""Priorities have a bound, so that no sum of them is infinite."""


def as_index(index: Any) -> np.ndarray:
    """Return numbers of steps as an array, of a dtype of whole numbers if there are any.

    Raises:
        ValueError: They are no (B,) whole numbers.
    """
    array = _as_array(index)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise ValueError(
            f"index must be whole numbers of shape (B,), as batch.index, got {array.dtype} of shape "
            f"{array.shape}"
        )
    return array


def as_priorities(priorities: Any) -> np.ndarray:
    """Return priorities as an array of float64.

    Raises:
        ValueError: One is negative, or not finite as float32, or no number.
    """
    array = _as_array(priorities)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"priorities must be real numbers, got {array.dtype} of shape {array.shape}")
    array = array.astype(np.float64)
    rows = array.reshape(-1)
    require_all("priorities", rows, ~(rows < 0), ">= 0, as np.abs(td_errors) is")
    require_all("priorities", rows, rows <= LARGEST, "finite as float32")
    return array


def _as_array(values: Any) -> np.ndarray:
    """Return an array of what may be a tensor of any device, part of a graph or not."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if values.is_floating_point():
            values = values.double()  # of bfloat16, NumPy knows nothing
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        return np.asarray(None)


def require_all(name: str, values: np.ndarray, right: np.ndarray, what: str) -> None:
    """Refuse values of which some are not right, naming the first.

    Raises:
        ValueError: There are such.
    """
    if not right.all():
        row = int(right.argmin())
        raise ValueError(f"{name} must be {what}, got {values[row]} at row {row}")
