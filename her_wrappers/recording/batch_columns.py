"""BatchColumns: arrays of a vector environment's observations or actions, one row per step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.trees import as_leaf

if TYPE_CHECKING:
    from her_wrappers.infos import Where
    from her_wrappers.spaces import LeafSpec, SpaceSpec
    from her_wrappers.trees import Tree


class BatchColumns:
    """The leaves of one space, each an array (capacity, N, ...).

    A row has one step of all environments, so recording a step copies one contiguous block per leaf. One row
    per environment would make recording a step several times slower.

    Args:
        spec: The leaves of the space of one environment.
        num_envs: Number of environments, N.
        arrays: Array (capacity, N, ...) of each leaf.
    """

    def __init__(self, spec: SpaceSpec, num_envs: int, arrays: list[np.ndarray]) -> None:
        self.spec = spec
        self._num_envs = num_envs
        self._arrays = arrays

    @classmethod
    def empty(cls, spec: SpaceSpec, num_envs: int, capacity: int) -> BatchColumns:
        """Return columns with ``capacity`` rows that are not initialized; the class describes the others."""
        arrays = [np.empty((capacity, num_envs, *leaf.shape), leaf.dtype) for leaf in spec]
        return cls(spec, num_envs, arrays)

    def check(self, tree: Tree, where: Where, *, rounding: bool = False) -> list[np.ndarray]:
        """Return the leaves of a batch, with the space's dtypes and with shapes (N, ...).

        Args:
            tree: Observations or actions of all environments.
            where: Function that describes an environment and its step, for messages.
            rounding: Whether floats may be rounded to a shorter float dtype.

        Raises:
            ValueError: A leaf is missing, or does not fit its space.
        """
        return [
            as_batch(
                leaf, leaf.find(tree, "in the batch"), count=self._num_envs, where=where, rounding=rounding
            )
            for leaf in self.spec
        ]

    def write(self, slot: int, values: list[np.ndarray], rows: np.ndarray | None = None) -> None:
        """Copy a batch to a row of the columns.

        Args:
            slot: Index of the row.
            values: Leaves of the batch, each (N, ...).
            rows: (n,) indices of the environments whose values are copied; None for all.
        """
        for array, value in zip(self._arrays, values, strict=True):
            if rows is None:
                array[slot] = value
            else:
                array[slot, rows] = value[rows]

    def take(self, index: np.ndarray) -> list[np.ndarray]:
        """Return copies of values of single environments, see `take_rows`: one (n, ...) array per leaf."""
        return [take_rows(array, index) for array in self._arrays]

    def moved(self, slots: np.ndarray, capacity: int) -> BatchColumns:
        """Return columns with ``capacity`` rows, in which row ``slots[i]`` is a copy of row i."""
        return BatchColumns(
            self.spec, self._num_envs, [moved(array, slots, capacity) for array in self._arrays]
        )


def take_rows(array: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return copies of values of single environments, (n, ...).

    Args:
        array: (capacity, N, ...) array.
        index: (n,) integers slot * N + environment, which are taken modulo capacity * N.
    """
    return array.reshape(-1, *array.shape[2:]).take(index, axis=0, mode="wrap")


def moved(array: np.ndarray, slots: np.ndarray, capacity: int) -> np.ndarray:
    """Return an array with ``capacity`` rows, in which row ``slots[i]`` is a copy of row i of ``array``."""
    larger = np.empty((capacity, *array.shape[1:]), array.dtype)
    larger[slots] = array
    return larger


def as_batch(leaf: LeafSpec, value: Any, *, count: int, where: Where, rounding: bool = False) -> np.ndarray:
    """Return a value as the (count, ...) array of a leaf; an array that fits is returned as it is.

    Args:
        leaf: The leaf.
        value: Anything that NumPy converts to an array.
        count: Number of rows.
        where: Function from the index of a row to its place in messages.
        rounding: Whether floats may be rounded to a shorter float dtype.

    Raises:
        ValueError: The value has another shape, or a cast would change it; the message names the first row
            with the error.
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
