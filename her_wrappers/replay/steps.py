"""Steps: transitions copied out of episodes, and their goals."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class Steps(NamedTuple):
    """B steps copied out of episodes, as records whose fields are views.

    Attributes:
        numbers: (B,) their numbers.
        records: (B,) their states, what was done there, and what it brought.
        next_records: (B,) the states after.
        desired: (2, B) their desired goals, before and after.
        infos: (B,) infos that came with them, where any are kept.
    """

    numbers: np.ndarray
    records: np.ndarray
    next_records: np.ndarray
    desired: np.ndarray
    infos: np.ndarray | None

    def first(self, count: int) -> Steps:
        """Return views of the first of them."""
        infos = None if self.infos is None else self.infos[:count]
        return Steps(
            self.numbers[:count],
            self.records[:count],
            self.next_records[:count],
            self.desired[:, :count],
            infos,
        )


def desired_goals(segments: np.ndarray, new: np.ndarray | None = None) -> np.ndarray:
    """Return the desired goals of steps that have these segments.

    Args:
        segments: (B,) segments.
        new: (M,) goals that the first steps get instead of theirs.

    Returns:
        (2, B) goals before and after the steps, in memory of their own.
    """
    stored, count = segments["desired"], 0 if new is None else len(new)
    desired = np.empty((2, len(segments)), stored.dtype)
    for name in stored.dtype.names or ():
        goals = desired[name]
        goals[:, count:] = stored[name][count:].swapaxes(0, 1)
        if new is not None:
            goals[:, :count] = new[name]
    return desired


def same_goals(goals: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether goals, which are parts of records, are the same as others, row by row, to the last bit."""
    same = np.ones(len(goals), np.bool_)
    for name in goals.dtype.names or ():
        same &= (as_words(goals[name]) == as_words(others[name])).all(axis=1)
    return same


def as_words(leaf: np.ndarray) -> np.ndarray:
    """Return the bytes of each row as whole numbers, as few as can be."""
    width = math.prod(leaf.shape[1:])  # not -1, which no array without rows tells
    rows = np.ascontiguousarray(leaf).reshape(len(leaf), width)
    size = width * rows.itemsize
    return rows.view(np.dtype(f"u{math.gcd(size, 8)}"))
