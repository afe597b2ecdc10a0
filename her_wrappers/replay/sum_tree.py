"""SumTree: numbers at places, and draws of places in proportion to them.

Every node above the places is the sum of the 16 below it, up to a level of at most 4096 nodes, along which a
draw is found by bisection. A wide tree suits NumPy: a million places are three levels, each a few calls for
all draws of a batch, where a binary tree has twenty.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WIDTH = 16
"""Nodes below one: two cache lines, which one `take` copies."""

UP_TO = np.triu(np.ones((WIDTH, WIDTH)))
"""What makes the numbers of a row ends: each the sum of the numbers up to it."""

MOST_AT_TOP = 4096
"""Nodes of the highest level; to add up so many is quicker than another level."""


class SumTree:
    """Numbers of at least 0 at ``capacity`` places, 0 at first.

    A place is drawn with its share of the sum of all numbers. One that holds 0 is never drawn, whatever the
    rounding. The sums are always computed from what is below them, never counted up or down, so they do not
    drift: equal numbers make equal trees, to the last bit, whatever was there before.

    Args:
        capacity: Places.

    Raises:
        MemoryError: There is not so much memory: about 8.6 bytes a place.
    """

    def __init__(self, capacity: int) -> None:
        # The places first; each row lies below one node of the next level.
        self._levels = [np.zeros((_rows(capacity), WIDTH))]
        self._is_stale = False
        while self._levels[-1].size > MOST_AT_TOP:
            self._levels.append(np.zeros((_rows(len(self._levels[-1])), WIDTH)))

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return sum(level.nbytes for level in self._levels)

    def get(self, places: np.ndarray) -> np.ndarray:
        """Return the numbers at (n,) places."""
        numbers: np.ndarray = self._levels[0].reshape(-1).take(places)
        return numbers

    def set(self, places: np.ndarray, numbers: np.ndarray) -> None:
        """Put (n,) numbers at (n,) places; of several for one place the largest stays."""
        self._is_stale = True  # until the sums are those of the places again
        leaves = self._levels[0].reshape(-1)
        leaves[places] = numbers
        smaller = leaves[places] < numbers
        if smaller.any():
            np.maximum.at(leaves, places[smaller], numbers[smaller])
        for below, level in zip(self._levels[:-1], self._levels[1:], strict=True):
            places = places // WIDTH
            level.reshape(-1)[places] = _sums(below.take(places, axis=0))
        self._is_stale = False

    def set_range(self, first: int, end: int, numbers: np.ndarray | float) -> None:
        """Put numbers, or one number, at the places from ``first`` to before ``end``."""
        self._is_stale = True
        self._levels[0].reshape(-1)[first:end] = numbers
        for below, level in zip(self._levels[:-1], self._levels[1:], strict=True):
            first, end = first // WIDTH, _rows(end)
            level.reshape(-1)[first:end] = _sums(below[first:end])
        self._is_stale = False

    def repair(self) -> None:
        """Sum up all places again, if an interruption has left sums of other numbers."""
        if self._is_stale:
            leaves = self._levels[0].reshape(-1)
            self.set_range(0, len(leaves), leaves)

    def find(self, fractions: np.ndarray) -> np.ndarray:
        """Return the places at which the numbers, one after the other, reach fractions of their sum.

        Args:
            fractions: (n,) in [0, 1); uniform ones draw places.

        Returns:
            (n,) places, none of which holds 0; some place must not.
        """
        top = self._levels[-1].reshape(-1)
        ends = top.cumsum()
        left = fractions * ends[-1]  # below the sum: 1 - 2^-53 times a double rounds to less
        nodes = ends.searchsorted(left, side="right")
        left -= ends[nodes] - top[nodes]
        for level in self._levels[-2::-1]:
            nodes, left = _descend(level.take(nodes, axis=0), nodes, left)
        places: np.ndarray = nodes
        return places

    def __getstate__(self) -> dict[str, Any]:
        """Keep the numbers up to the last that is not 0; copies and pickles make the rest themselves."""
        leaves = self._levels[0].reshape(-1)
        end = leaves.nonzero()[0].max(initial=-1) + 1
        return {"places": leaves.size, "numbers": leaves[:end]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over numbers, and add them up as they were."""
        tree = SumTree(state["places"])
        tree.set_range(0, len(state["numbers"]), state["numbers"])
        self.__dict__ = tree.__dict__

    def verify(self) -> None:
        """Check that each node is the sum of those below it.

        Raises:
            RuntimeError: One is not.
        """
        for below, level in zip(self._levels[:-1], self._levels[1:], strict=True):
            if not np.array_equal(_sums(below), level.reshape(-1)[: len(below)]):
                raise RuntimeError("the buffer is corrupted: the sums of its priorities do not agree")


def _descend(rows: np.ndarray, nodes: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Go one level down, never to a 0.

    Ends by a product of matrices cost a fifth of a cumulative sum. But they are rounded each in its own way:
    once in some 10^15 draws, the first end above a draw may be that of a 0, or there may be none, for which
    `argmax` says the first node. Where the node found holds 0, the largest number is taken. It is above 0,
    since a node is entered only if the sum of those below is.

    Args:
        rows: (n, WIDTH) numbers of the nodes below.
        nodes: (n,) numbers of the nodes above them.
        left: (n,) what is left of the draws, in them.

    Returns:
        The nodes below, and what is left of the draws in those.
    """
    ends = rows @ UP_TO
    child = (ends > left[:, None]).argmax(axis=1)
    row_begins = np.arange(0, rows.size, WIDTH)
    numbers = rows.reshape(-1).take(row_begins + child)
    if not numbers.all():
        child = np.where(numbers > 0, child, rows.argmax(axis=1))
        numbers = rows.reshape(-1).take(row_begins + child)
    begins = ends.reshape(-1).take(row_begins + child) - numbers
    return nodes * WIDTH + child, left - begins


def _rows(nodes: int) -> int:
    """Return how many rows nodes fill."""
    return -(-nodes // WIDTH)


def _sums(rows: np.ndarray) -> np.ndarray:
    """Return the sums of (n, WIDTH) rows, each independent of where it stands, (n,)."""
    sums: np.ndarray = np.einsum("ij->i", rows)  # half the time of `sum`
    return sums
