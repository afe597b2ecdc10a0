"""Steps: transitions copied out of episodes, and their goals."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Records: TypeAlias = Any
"""A structured array, or the `TensorRecords` of a device. Fields of either are had by ``records[name]``."""


class Steps(NamedTuple):
    """B steps copied out of episodes, as records whose fields are views.

    Attributes:
        numbers: (B,) their numbers.
        records: (2, B) their states, what was done there, and what it brought; and the states after.
        desired: (2, B) their desired goals, before and after, as records.
        infos: (B,) infos that came with them, where any are kept.
    """

    numbers: Any
    records: Records
    desired: Records
    infos: Records | None


def before_and_after(states: np.ndarray) -> np.ndarray:
    """Return where the states stand in which (..., B) steps begin and end, (..., 2, B)."""
    return np.stack([states, states + 1], axis=-2)


def same_goals(goals: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether goals, which are parts of records, are the same as others, row by row, to the last bit."""
    same = np.ones(len(goals), np.bool_)
    for name in goals.dtype.names or ():
        same &= as_bytes(goals[name]) == as_bytes(others[name])
    return same


def own_copy(values: Any) -> Any:
    """Return a copy of an array or a tensor."""
    return values.copy() if isinstance(values, np.ndarray) else values.clone()


def as_bytes(leaf: np.ndarray) -> np.ndarray:
    """Return each row as plain bytes, (n,): compared at once, in a quarter of the time of its parts."""
    size = math.prod(leaf.shape[1:]) * leaf.itemsize
    return np.ndarray(len(leaf), plain(size), np.ascontiguousarray(leaf))


@cache
def plain(size: int) -> np.dtype[Any]:
    """Return the dtype of so many plain bytes."""
    return np.dtype((np.void, size))
