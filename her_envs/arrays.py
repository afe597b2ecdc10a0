"""Functions with which the same code of a task runs on NumPy arrays and on torch tensors."""

from __future__ import annotations

import copy
import sys
from typing import Any, Self

import numpy as np


def namespace(array: Any) -> Any:
    """Return the module with functions for ``array``, such as ``where``: ``numpy`` or ``torch``."""
    return np if isinstance(array, np.ndarray) else sys.modules["torch"]


def cast(array: Any, dtype: str) -> Any:
    """Return ``array`` with the dtype of this name, such as ``"float32"``."""
    if isinstance(array, np.ndarray):
        return array.astype(dtype, copy=False)
    return array.to(getattr(namespace(array), dtype))


def copied(array: Any) -> Any:
    """Return a copy of ``array``."""
    return array.copy() if isinstance(array, np.ndarray) else array.clone()


def take(array: Any, index: Any, axis: int = 0) -> Any:
    """Return ``array.take(index, axis)``, which is faster for arrays than indexing."""
    if isinstance(array, np.ndarray):
        return array.take(index, axis=axis)
    return array[(slice(None),) * axis + (index,)]


def as_numpy(value: Any) -> Any:
    """Return a tensor as a NumPy array, which waits for its device; return any other value unchanged."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


class Movable:
    """A task, or a part of a task, whose arrays can be moved to a device."""

    def to(self, device: Any) -> Self:
        """Return a copy whose NumPy arrays, also those in `Movable` attributes, are tensors on ``device``."""
        moved = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(moved, name, sys.modules["torch"].as_tensor(value.copy(), device=device))
            elif isinstance(value, Movable):
                setattr(moved, name, value.to(device))
        return moved
