"""Prioritized sampling: sampling probabilities of the stored transitions, and importance weights.

Source: Schaul et al. 2016, Prioritized Experience Replay, section 3, https://arxiv.org/abs/1511.05952
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from her_wrappers.data.trees import try_as_array
from her_wrappers.replay.rows import ring_slices
from her_wrappers.support.arguments import require_number

INITIAL_PRIORITY = 1.0  # priority of new transitions, until a larger one is given
LARGEST = float(np.finfo(np.float32).max)  # largest priority that is allowed: sums of them are finite
WIDTH = 16  # number of children of a node. Their values fill two cache lines, which `take` copies at once.
UP_TO = np.triu(np.ones((WIDTH, WIDTH)))  # `row @ UP_TO` are the sums of the values up to each column
MOST_AT_TOP = 4096  # maximum number of nodes of the top level; summing them is faster than another level


@dataclass(frozen=True)
class Priority:
    """Options of prioritized sampling, with probabilities proportional to (priority + eps)^alpha.

    Attributes:
        alpha: Exponent of the priorities, in [0, 1]; 0 samples uniformly, 1 in proportion to priorities.
        beta: Exponent of the weights, in [0, 1]; with 1 the weights fully correct for the unequal sampling
            probabilities, with 0 all weights are 1. Schaul et al. (arXiv 1511.05952) raise beta to 1 by the
            end of training; to do so, pass ``beta`` to ``sample``.
        eps: Number in [1e-30, 1] that is added to priorities, so that no probability is 0.

    Raises:
        ValueError: A value is out of its range.
    """

    alpha: float = 0.6
    beta: float = 0.4
    eps: float = 1e-6

    def __post_init__(self) -> None:
        for name, interval in (("alpha", "[0, 1]"), ("beta", "[0, 1]"), ("eps", "[1e-30, 1]")):
            value = require_number(f"{name} of Priority", getattr(self, name), interval)
            object.__setattr__(self, name, value)  # powers of a float32 would be float32

    def scale(self, priorities: np.ndarray | float) -> Any:
        """Return (priorities + eps)^alpha, to which the sampling probabilities are proportional."""
        return (priorities + self.eps) ** self.alpha


class PrioritySampler:
    """Stores *scaled* priorities, (priority + eps)^alpha; new steps get the largest priority so far."""

    def __init__(self, buffer_size: int, priority: Priority) -> None:
        self._capacity = buffer_size
        self._priority = priority
        self._tree = SumTree(buffer_size)  # the scaled priority of step i at i % capacity; 0 if free
        self._first = self._end = 0  # numbers of the steps that are in the tree
        self.largest = INITIAL_PRIORITY

    @property
    def nbytes(self) -> int:
        """Size of the memory for the priorities, in bytes."""
        return self._tree.nbytes

    def set_stored(self, first: int, end: int) -> None:
        """Give new steps a priority and evicted ones none: the buffer stores ``first`` to ``end`` - 1 now."""
        if (first, end) == (self._first, self._end):
            return
        self._set_range(self._first, np.zeros(min(first, self._end) - self._first))
        newest = max(first, self._end)
        self._set_range(newest, np.full(end - newest, self._priority.scale(self.largest)))
        self._first, self._end = first, end

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Sample steps in proportion to (priority + eps)^alpha; return their offsets from the oldest step."""
        ahead: np.ndarray = (self._tree.find(rng.random(count)) - self._first) % self._capacity
        return ahead

    def scaled(self, index: np.ndarray) -> np.ndarray:
        """Return the scaled priorities of steps, given their step numbers."""
        return self._tree.get(index % self._capacity)

    def weights(self, scaled: np.ndarray, beta: float | None) -> np.ndarray:
        """Return importance weights (N P)^-beta, (B,) float32, divided by the largest of these B weights."""
        # The number of steps N and the sum of the priorities cancel, since they are the same for all rows.
        weights: np.ndarray = (scaled.min() / scaled) ** (self._priority.beta if beta is None else beta)
        return weights.astype(np.float32)

    def update(self, index: np.ndarray, priorities: np.ndarray) -> int:
        """Set the priorities of stored steps; return how many steps in ``index`` are no longer stored."""
        given = (index >= 0) & (index < self._end)
        _require_all("index", index, given, "step numbers of this buffer, as in batch.index")
        stored = index >= self._first
        index, priorities = index[stored].astype(np.int64), priorities[stored]
        if len(index):
            # The largest priority is updated first, so that no interruption leaves a priority above it.
            self.largest = max(self.largest, float(priorities.max()))
            self._tree.set(index % self._capacity, self._priority.scale(priorities))
        return len(stored) - len(index)

    def restore(self, scaled: np.ndarray, largest: float, priority: Priority) -> None:
        """Restore saved priorities, unless ``priority``, the saved options, has another alpha or eps."""
        if (priority.alpha, priority.eps) == (self._priority.alpha, self._priority.eps):
            self._set_range(self._first, scaled[len(scaled) - (self._end - self._first) :])
            self.largest = largest

    def _set_range(self, first: int, scaled: np.ndarray) -> None:
        """Set the (n,) scaled priorities of n consecutive steps, from the step number ``first`` on."""
        for slots, part in ring_slices(first, len(scaled), self._capacity):
            if slots.stop > slots.start:
                self._tree.set_range(slots.start, slots.stop, scaled[part])


def _require_all(name: str, values: np.ndarray, valid: np.ndarray, expected: str) -> None:
    """Raise ValueError, which names the first invalid value, unless the bools ``valid`` are all True."""
    if not valid.all():
        row = int(valid.argmin())
        raise ValueError(f"{name} must be {expected}, got {values[row]} at row {row}")


def require_updates(index: Any, priorities: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return step numbers and priorities as (B,) arrays, or raise ValueError; see `update_priorities`."""
    index, priorities = try_as_array(index), try_as_array(priorities)
    if index.ndim != 1 or (index.dtype.kind not in "iu" and len(index)):
        raise ValueError(
            "index must be an array of integers with one axis, such as batch.index, got dtype "
            f"{index.dtype} and shape {index.shape}"
        )
    if priorities.dtype.kind not in "iuf":
        raise ValueError(f"priorities must be real numbers, got dtype {priorities.dtype}")
    priorities = priorities.astype(np.float64)
    rows = priorities.reshape(-1)
    _require_all("priorities", rows, ~(rows < 0), ">= 0, such as np.abs(td_errors)")
    _require_all("priorities", rows, rows <= LARGEST, "finite as float32")
    if priorities.shape != index.shape:
        got = f"got shape {priorities.shape}, but index has shape {index.shape}"
        raise ValueError(f"priorities must have the same shape as the argument index: {got}")
    return index, priorities


class SumTree:
    """Non-negative values of ``capacity`` slots, initially 0, and sums of them for sampling.

    The leaves are the values. Each node above them is the sum of 16 children, up to a top level of at most
    4096 nodes, which is searched by bisection: a million slots make three levels. A slot with value 0 is
    never sampled, even with rounding errors. Each sum is computed from its children and never updated by
    differences, so equal values give bit-identical trees.
    """

    def __init__(self, capacity: int) -> None:
        # The first level has the values; each row of it has the children of one node of the next level.
        self._levels = [np.zeros((-(-capacity // WIDTH), WIDTH))]
        self._is_stale = False
        while self._levels[-1].size > MOST_AT_TOP:
            self._levels.append(np.zeros((-(-len(self._levels[-1]) // WIDTH), WIDTH)))

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
        """Assign an array, or one number for all, to the slots from ``first`` up to but without ``end``."""
        self._is_stale = True
        self._levels[0].reshape(-1)[first:end] = values
        for below, level in zip(self._levels[:-1], self._levels[1:], strict=True):
            first, end = first // WIDTH, -(-end // WIDTH)
            level.reshape(-1)[first:end] = _sums(below[first:end])
        self._is_stale = False

    def find(self, fractions: np.ndarray) -> np.ndarray:
        """Return the (n,) slots at which the cumulative sum first exceeds ``fractions`` of the whole sum."""
        if self._is_stale:  # an interruption left wrong sums
            leaves = self._levels[0].reshape(-1)
            self.set_range(0, len(leaves), leaves)
        top = self._levels[-1].reshape(-1)
        ends = top.cumsum()
        left = fractions * ends[-1]  # below the sum, since (1 - 2^-53) times a double rounds down
        nodes = ends.searchsorted(left, side="right")
        left -= ends[nodes] - top[nodes]
        for level in self._levels[-2::-1]:
            nodes, left = _descend(level.take(nodes, axis=0), nodes, left)
        slots: np.ndarray = nodes
        return slots


def _descend(rows: np.ndarray, nodes: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For n searches, return the first child whose cumulative sum exceeds ``left``, and its new ``left``."""
    # A matrix product gives the cumulative sums in a fifth of the time of `cumsum`. It rounds each sum
    # independently, so a search can lead to a child of value 0 (about one search of 10^15). Such a search
    # returns the child with the largest value instead.
    ends = rows @ UP_TO
    child = (ends > left[:, None]).argmax(axis=1)
    row_begins = np.arange(0, rows.size, WIDTH)
    values = rows.reshape(-1).take(row_begins + child)
    if not values.all():
        child = np.where(values > 0, child, rows.argmax(axis=1))
        values = rows.reshape(-1).take(row_begins + child)
    begins = ends.reshape(-1).take(row_begins + child) - values
    return nodes * WIDTH + child, left - begins


def _sums(rows: np.ndarray) -> np.ndarray:
    """Return the (n,) sums of (n, WIDTH) rows; the rounding does not depend on the position of a row."""
    sums: np.ndarray = np.einsum("ij->i", rows)  # half the time of `sum`
    return sums
