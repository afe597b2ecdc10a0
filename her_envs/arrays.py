"""Functions for tasks that run on NumPy arrays and on torch tensors by the same code.

Operators, indexing and methods such as ``clip``, ``sum`` and ``all`` work for both types; this module has
the rest. It does not import torch.
"""

from __future__ import annotations

import copy
import sys
from typing import Any, Self, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""A NumPy array or scalar, or a torch tensor."""


def namespace(array: Array) -> Any:
    """Return the module of functions for ``array``: ``numpy``, or ``torch`` for a tensor.

    Both modules have for example ``where``, ``sqrt``, and ``stack`` and ``concatenate`` with ``axis=``.
    """
    return np if isinstance(array, np.ndarray) else sys.modules["torch"]


def cast(array: Array, dtype: str) -> Array:
    """Return ``array`` with the dtype of this name, such as ``"float32"``."""
    if isinstance(array, np.ndarray):
        return array.astype(dtype, copy=False)
    return array.to(getattr(namespace(array), dtype))


def copied(array: Array) -> Array:
    """Return a copy of ``array`` in C order."""
    if isinstance(array, np.ndarray):
        return array.copy()
    return array.clone(memory_format=namespace(array).contiguous_format)


def take(array: Array, index: Array, axis: int = 0) -> Array:
    """Return the parts of ``array`` with these indices along an axis. For arrays, indexing takes longer."""
    if isinstance(array, np.ndarray):
        return array.take(index, axis=axis)
    return array[(slice(None),) * axis + (index,)]


def as_numpy(value: Any) -> Any:
    """Return a tensor as a NumPy array, which waits for its device; return any other value unchanged."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


class Movable:
    """An object whose arrays can be moved to a device: a task, or a part of a task."""

    def to(self, device: Any) -> Self:
        """Return a copy in which attributes that are NumPy arrays are tensors on a device.

        Attributes that are `Movable` are moved likewise.

        Args:
            device: A torch device.
        """
        moved = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(moved, name, sys.modules["torch"].as_tensor(value.copy(), device=device))
            elif isinstance(value, Movable):
                setattr(moved, name, value.to(device))
        return moved
