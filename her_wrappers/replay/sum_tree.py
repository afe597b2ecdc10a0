"""SumTree: sampling of slots with probabilities proportional to their values.

The leaves are the values of the slots. Each node above them is the sum of 16 children, up to a top level of
at most 4096 nodes, which is searched by bisection. NumPy needs few calls for a wide tree: a million slots
make three levels, where a binary tree has twenty.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WIDTH = 16
"""Number of children of a node. Their values fill two cache lines, which `take` copies at once."""

UP_TO = np.triu(np.ones((WIDTH, WIDTH)))
"""Matrix of cumulative sums: ``row @ UP_TO`` are the sums of the values up to each column."""

MOST_AT_TOP = 4096
"""Maximum number of nodes of the top level; summing them is faster than another level."""


class SumTree:
    """Non-negative values of ``capacity`` slots, initially 0.

    A slot is sampled with probability value / sum of all values. A slot with value 0 is never sampled, even
    with rounding errors. Each sum is computed from its children and never updated by differences, so rounding
    errors do not accumulate: equal values give bit-identical trees.

    Args:
        capacity: Number of slots.

    Raises:
        MemoryError: Not enough memory: about 8.6 bytes per slot.
    """

    def __init__(self, capacity: int) -> None:
        # The first level has the values; each row of it has the children of one node of the next level.
        self._levels = [np.zeros((_rows(capacity), WIDTH))]
        self._is_stale = False
        while self._levels[-1].size > MOST_AT_TOP:
            self._levels.append(np.zeros((_rows(len(self._levels[-1])), WIDTH)))

    @property
    def nbytes(self) -> int:
        """Size of the memory in bytes."""
        return sum(level.nbytes for level in self._levels)

    def get(self, slots: np.ndarray) -> np.ndarray:
        """Return the values of (n,) slots."""
        values: np.ndarray = self._levels[0].reshape(-1).take(slots)
        return values

    def set(self, slots: np.ndarray, values: np.ndarray) -> None:
        """Set the values of (n,) slots to (n,) values; a slot that occurs several times gets the largest."""
        self._is_stale = True  # until the sums are computed
        leaves = self._levels[0].reshape(-1)
        leaves[slots] = values
        smaller = leaves[slots] < values
        if smaller.any():
            np.maximum.at(leaves, slots[smaller], values[smaller])
        nodes = slots
        for below, level in zip(self._levels[:-1], self._levels[1:], strict=True):
            nodes = nodes // WIDTH
            level.reshape(-1)[nodes] = _sums(below.take(nodes, axis=0))
        self._is_stale = False

    def set_range(self, first: int, end: int, values: np.ndarray | float) -> None:
        """Set the values of the slots from ``first`` to before ``end``, to an array or to one number."""
        self._is_stale = True
        self._levels[0].reshape(-1)[first:end] = values
        for below, level in zip(self._levels[:-1], self._levels[1:], strict=True):
            first, end = first // WIDTH, _rows(end)
            level.reshape(-1)[first:end] = _sums(below[first:end])
        self._is_stale = False

    def repair(self) -> None:
        """Compute all sums again if an interruption left wrong ones."""
        if self._is_stale:
            leaves = self._levels[0].reshape(-1)
            self.set_range(0, len(leaves), leaves)

    def find(self, fractions: np.ndarray) -> np.ndarray:
        """Return the slots at which the cumulative sum of the values exceeds fractions of the total.

        At least one value must be positive.

        Args:
            fractions: (n,) numbers in [0, 1); uniform random numbers sample slots.

        Returns:
            (n,) slots with positive values.
        """
        top = self._levels[-1].reshape(-1)
        ends = top.cumsum()
        left = fractions * ends[-1]  # below the sum, since (1 - 2^-53) times a double rounds down
        nodes = ends.searchsorted(left, side="right")
        left -= ends[nodes] - top[nodes]
        for level in self._levels[-2::-1]:
            nodes, left = _descend(level.take(nodes, axis=0), nodes, left)
        slots: np.ndarray = nodes
        return slots

    def __getstate__(self) -> dict[str, Any]:
        """Return the values up to the last positive one; the sums are computed again."""
        leaves = self._levels[0].reshape(-1)
        end = leaves.nonzero()[0].max(initial=-1) + 1
        return {"capacity": leaves.size, "values": leaves[:end]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the values, and compute their sums."""
        tree = SumTree(state["capacity"])
        tree.set_range(0, len(state["values"]), state["values"])
        self.__dict__ = tree.__dict__

    def verify(self) -> None:
        """Check that each node is the sum of its children.

        Raises:
            RuntimeError: A node is not the sum of its children.
        """
        for below, level in zip(self._levels[:-1], self._levels[1:], strict=True):
            if not np.array_equal(_sums(below), level.reshape(-1)[: len(below)]):
                raise RuntimeError(
                    "the buffer is corrupted: the sums of its priorities are wrong; load a saved buffer"
                )


def _descend(rows: np.ndarray, nodes: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the child with a positive value in which each search continues.

    A matrix product takes a fifth of the time of a cumulative sum, but its columns are rounded independently.
    In about one of 10^15 searches, the child found has value 0; the child with the largest value replaces it.

    Args:
        rows: (n, WIDTH) values of the children.
        nodes: (n,) indices of the parents in their level.
        left: (n,) remaining values of the searches within the parents.

    Returns:
        Indices of the children in their level, and the remaining values within them.
    """
    ends = rows @ UP_TO
    child = (ends > left[:, None]).argmax(axis=1)
    row_begins = np.arange(0, rows.size, WIDTH)
    values = rows.reshape(-1).take(row_begins + child)
    if not values.all():
        child = np.where(values > 0, child, rows.argmax(axis=1))
        values = rows.reshape(-1).take(row_begins + child)
    begins = ends.reshape(-1).take(row_begins + child) - values
    return nodes * WIDTH + child, left - begins


def _rows(nodes: int) -> int:
    """Return the number of rows of a level."""
    return -(-nodes // WIDTH)


def _sums(rows: np.ndarray) -> np.ndarray:
    """Return the (n,) sums of (n, WIDTH) rows; the rounding does not depend on the position of a row."""
    sums: np.ndarray = np.einsum("ij->i", rows)  # half the time of `sum`
    return sums
