"""BatchColumns: the batches of many environments, a row a step, kept leaf by leaf."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from her_wrappers.trees import as_leaf

if TYPE_CHECKING:
    from her_wrappers.recording.leaves import Leaf, Leaves
    from her_wrappers.trees import Tree

Where: TypeAlias = Callable[[int], str]
"""Says where environment i is, for messages: "at step 7 of environment 3"."""


class BatchColumns:
    """The leaves of one space, each an array (capacity, N, ...).

    One row is one moment of all environments, so that recording a step is one copy of contiguous memory for
    each leaf, however old the environments' episodes are. With a row an environment, writing would take six
    times as long, and collecting an episode would save nothing.

    Args:
        leaves: The leaves of the space of one environment.
        num_envs: Number of environments, N.
        capacity: Number of rows.
    """

    def __init__(self, leaves: Leaves, num_envs: int, capacity: int) -> None:
        self.leaves = leaves
        self._num_envs = num_envs
        self._arrays = [np.empty((capacity, num_envs, *leaf.shape), leaf.dtype) for leaf in leaves]

    def check(self, tree: Tree, where: Where, *, rounding: bool = False) -> list[np.ndarray]:
        """Return the leaves of a batch, with the space's shapes and dtypes.

        Raises:
            ValueError: A leaf is missing, or does not fit its space.
        """
        return [
            as_batch(
                leaf, leaf.find(tree, "in the batch"), count=self._num_envs, where=where, rounding=rounding
            )
            for leaf in self.leaves
        ]

    def write(self, slot: int, values: list[np.ndarray], rows: np.ndarray | None = None) -> None:
        """Copy a batch, or the given rows of it."""
        for array, value in zip(self._arrays, values, strict=True):
            if rows is None:
                array[slot] = value
            else:
                array[slot, rows] = value[rows]

    def take(self, index: np.ndarray) -> list[np.ndarray]:
        """Return what stands at slot * N + environment, modulo the whole."""
        return [take_rows(array, index) for array in self._arrays]

    def move(self, slots: np.ndarray, capacity: int) -> None:
        """Make room for ``capacity`` rows, and move each row to the slot given for it."""
        self._arrays = [moved(array, slots, capacity) for array in self._arrays]


def take_rows(array: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return what stands at slot * N + environment, modulo the whole, of an array (capacity, N, ...)."""
    return array.reshape(-1, *array.shape[2:]).take(index, axis=0, mode="wrap")


def moved(array: np.ndarray, slots: np.ndarray, capacity: int) -> np.ndarray:
    """Return an array of ``capacity`` rows that has the rows of ``array`` in the given slots."""
    larger = np.empty((capacity, *array.shape[1:]), array.dtype)
    larger[slots] = array
    return larger


def as_batch(leaf: Leaf, value: Any, *, count: int, where: Where, rounding: bool = False) -> np.ndarray:
    """Return a value as the (count, ...) array of a leaf.

    Raises:
        ValueError: It does not fit; the message names the first row at fault.
    """
    shape = (count, *leaf.shape)
    if type(value) is np.ndarray and value.dtype is leaf.dtype and value.shape == shape:
        return value
    try:
        return as_leaf(f"{leaf.name} in the batch", value, shape, leaf.dtype, rounding=rounding)
    except ValueError:
        has_rows = isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0
        for i, row in enumerate(value if has_rows and len(value) == count else ()):
            leaf.check(row, where(i), rounding=rounding)
        raise
