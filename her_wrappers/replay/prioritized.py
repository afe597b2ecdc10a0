"""Prioritized sampling: sampling probabilities of the stored transitions, and importance weights.

Source: Schaul et al. 2016, Prioritized Experience Replay, section 3, https://arxiv.org/abs/1511.05952
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.replay.sum_tree import SumTree
from her_wrappers.trees import try_as_array

if TYPE_CHECKING:
    from her_wrappers.replay.storage import EpisodeStorage

INITIAL_PRIORITY = 1.0
"""Priority of new transitions, until a larger one is given."""

LARGEST = float(np.finfo(np.float32).max)
"""Largest priority that is allowed, so that sums of priorities are finite."""

ROUNDING = 1e-12
"""Numbers that differ relatively by less are considered equal."""


@dataclass(frozen=True)
class Priority:
    """Options of prioritized sampling, with probabilities proportional to (priority + eps)^alpha.

    Attributes:
        alpha: Exponent of the priorities, in [0, 1]; 0 samples uniformly, 1 in proportion to priorities.
        beta: Exponent of the weights, in [0, 1]; 1 corrects fully for the probabilities, 0 makes all weights
            1. The paper raises beta to 1 by the end of training: pass ``beta`` to ``sample``.
        eps: Number in [1e-30, 1] that is added to priorities, so that no probability is 0.

    Raises:
        ValueError: A value is out of its range.
    """

    alpha: float = 0.6
    beta: float = 0.4
    eps: float = 1e-6

    def __post_init__(self) -> None:
        for name, lowest in (("alpha", 0), ("beta", 0), ("eps", 1e-30)):
            value = require_between(f"{name} of Priority", getattr(self, name), lowest, 1)
            object.__setattr__(self, name, value)  # powers of a float32 would be float32

    def scale(self, priorities: np.ndarray | float) -> Any:
        """Return (priorities + eps)^alpha, to which the sampling probabilities are proportional."""
        return (priorities + self.eps) ** self.alpha

    def same_scale(self, other: Priority | None) -> bool:
        """Whether both scale priorities in the same way."""
        return other is not None and (self.alpha, self.eps) == (other.alpha, other.eps)


class SavedPriorities(NamedTuple):
    """The priorities of a buffer.

    Attributes:
        largest: The largest priority that was given.
        scaled: (n,) float64, scaled priorities of the stored steps, oldest first.
    """

    largest: float
    scaled: np.ndarray


class Priorities:
    """The priorities of the steps in a storage.

    Args:
        storage: The stored episodes.
        buffer_size: Number of steps that can be stored.
        priority: Options of prioritized sampling.

    Raises:
        MemoryError: Not enough memory: about 8.6 bytes per step.
    """

    def __init__(self, storage: EpisodeStorage, buffer_size: int, priority: Priority) -> None:
        self._storage = storage
        self._capacity = buffer_size
        self._priority = priority
        self._tree = SumTree(buffer_size)  # step i has slot i modulo the capacity; free slots have 0
        self._first = self._end = 0  # serial numbers of the steps that are in the tree
        self._largest = INITIAL_PRIORITY

    @property
    def nbytes(self) -> int:
        """Size of the memory in bytes."""
        return self._tree.nbytes

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Sample serial numbers of steps in proportion to their scaled priorities, with replacement."""
        self._follow()
        slots = self._tree.find(rng.random(count))
        serials: np.ndarray = self._first + (slots - self._first) % self._capacity
        return serials

    def weights(self, index: np.ndarray, beta: float | None) -> np.ndarray:
        """Return weights that correct for the sampling probabilities P of steps.

        The weights are (N P)^-beta, divided by the largest weight of these steps; N is the number of stored
        steps.

        Args:
            index: (B,) serial numbers of the steps.
            beta: The exponent; None for that of `Priority`.

        Returns:
            (B,) float32 in [0, 1].
        """
        scaled = self._tree.get(index % self._capacity)
        # N and the sum of the scaled priorities cancel, since they are the same for all rows.
        weights: np.ndarray = (scaled.min() / scaled) ** (self._priority.beta if beta is None else beta)
        return weights.astype(np.float32)

    def update(self, index: Any, priorities: Any) -> int:
        """Set the priorities of steps.

        Args:
            index: (B,) serial numbers, an array or a tensor.
            priorities: (B,) numbers of at least 0, an array or a tensor.

        Returns:
            Number of steps that are ignored because they are evicted.

        Raises:
            ValueError: The shapes differ, a serial number was never given to a step, or a priority is
                negative or not finite. No priority changes.
        """
        index, priorities = _as_index(index), _as_priorities(priorities)
        if priorities.shape != index.shape:
            raise ValueError(
                f"priorities must have the shape of index, {index.shape}, got {priorities.shape}"
            )
        self._follow()
        given = (index >= 0) & (index < self._end)
        _require_all("index", index, given, "numbers that this buffer has given, as batch.index")
        stored = index >= self._first
        index, priorities = index[stored].astype(np.int64), priorities[stored]
        if len(index):
            # The largest priority is updated first, so that no interruption leaves a priority above it.
            self._largest = max(self._largest, float(priorities.max()))
            self._tree.set(index % self._capacity, self._priority.scale(priorities))
        return len(stored) - len(index)

    def reset(self) -> None:
        """Reset the largest priority. The next update or sampling removes priorities of evicted steps."""
        self._largest = INITIAL_PRIORITY

    def verify(self) -> None:
        """Check that the stored steps and no others have a priority, and that the sums agree.

        Raises:
            RuntimeError: Priorities and steps disagree.
        """
        self._follow()
        serials = self._first + np.arange(self._capacity)
        stored = self._tree.get(serials % self._capacity) > 0
        if not np.array_equal(stored, serials < self._end):
            raise RuntimeError(
                "the buffer is corrupted: a stored step has no priority, or another step has one; "
                "load a saved buffer"
            )
        self._tree.verify()

    def saved(self) -> SavedPriorities:
        """Return the priorities of all stored steps."""
        self._follow()
        stored = np.arange(self._first, self._end) % self._capacity
        return SavedPriorities(self._largest, self._tree.get(stored))

    def restore(self, saved: SavedPriorities, first: int, priority: Priority | None) -> None:
        """Restore saved priorities; the storage has all saved steps, or only the newest of these steps.

        Args:
            saved: Priorities of another buffer.
            first: Serial number of the oldest step in ``saved``.
            priority: The `Priority` of that buffer. If it scales priorities differently, nothing is restored.

        Raises:
            ValueError: ``saved`` does not belong to the stored steps.
        """
        self._follow()
        if not self._priority.same_scale(priority):
            return
        largest, scaled = saved
        lowest, highest = self._priority.scale(0.0), self._priority.scale(largest)
        if not INITIAL_PRIORITY <= largest <= LARGEST:
            raise ValueError(
                f"expected a largest priority from {INITIAL_PRIORITY:g} to {LARGEST:g}, got {largest}"
            )
        if scaled.shape != (self._end - first,) or scaled.dtype != np.float64:
            raise ValueError(
                f"expected {self._end - first} priorities, got {scaled.dtype} of shape {scaled.shape}"
            )
        # Powers of arrays differ from those of single numbers in the last bit.
        possible = (scaled >= lowest * (1 - ROUNDING)) & (scaled <= highest * (1 + ROUNDING))
        _require_all("priorities", scaled, possible, f"between {lowest:g} and {highest:g}")
        self._set_range(self._first, scaled[self._first - first :])
        self._largest = largest

    def _follow(self) -> None:
        """Add priorities of steps that were stored since the last call, and remove those of evicted steps.

        A new step gets the largest priority so far, which is the same as when the step was stored: `update`
        calls this method before it changes priorities.
        """
        self._tree.repair()
        index = self._storage.memory.index
        first, end = index.first.step, index.end.step
        if (first, end) == (self._first, self._end):
            return
        self._set_range(self._first, np.zeros(min(first, self._end) - self._first))
        newest = max(first, self._end)
        self._set_range(newest, np.full(end - newest, self._priority.scale(self._largest)))
        self._first, self._end = first, end

    def _set_range(self, first: int, scaled: np.ndarray) -> None:
        """Set the (n,) scaled priorities of consecutive steps."""
        slot = first % self._capacity
        until_end = self._capacity - slot
        for begin, piece in ((slot, scaled[:until_end]), (0, scaled[until_end:])):
            if len(piece):
                self._tree.set_range(begin, begin + len(piece), piece)


def require_priority(priority: object) -> None:
    """Check the argument ``prioritized``.

    Raises:
        TypeError: ``priority`` is neither a `Priority` nor None.
    """
    if not isinstance(priority, Priority | None):
        raise TypeError(f"prioritized must be a Priority or None, got {priority!r}; pass Priority()")


def require_beta(beta: float, priorities: Priorities | None) -> None:
    """Check the argument ``beta`` of `HindsightReplayBuffer.sample`.

    Raises:
        ValueError: ``beta`` is not in [0, 1], or the buffer has no priorities.
    """
    if priorities is None:
        raise ValueError(
            f"beta is for a buffer with priorities, got {beta!r}; make it with prioritized=Priority(), "
            "or leave beta out"
        )
    require_between("beta", beta, 0, 1)


def require_between(name: str, value: object, lowest: float, highest: float) -> float:
    """Return a number in a range as a float.

    Raises:
        ValueError: ``value`` is not a number in [lowest, highest].
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not lowest <= float(value) <= highest:
        raise ValueError(f"{name} must lie in [{lowest:g}, {highest:g}], got {value!r}")
    return float(value)


def _as_index(index: Any) -> np.ndarray:
    """Return serial numbers as an array of integers; an empty array may have any dtype."""
    array = try_as_array(index)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise ValueError(
            f"index must be whole numbers of shape (B,), as batch.index, got {array.dtype} of shape "
            f"{array.shape}"
        )
    return array


def _as_priorities(priorities: Any) -> np.ndarray:
    """Return priorities as an array of float64."""
    array = try_as_array(priorities)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"priorities must be real numbers, got {array.dtype} of shape {array.shape}")
    array = array.astype(np.float64)
    rows = array.reshape(-1)
    _require_all("priorities", rows, ~(rows < 0), ">= 0, as np.abs(td_errors) is")
    _require_all("priorities", rows, rows <= LARGEST, "finite as float32")
    return array


def _require_all(name: str, values: np.ndarray, valid: np.ndarray, expected: str) -> None:
    """Raise ValueError for the first value that is not valid."""
    if not valid.all():
        row = int(valid.argmin())
        raise ValueError(f"{name} must be {expected}, got {values[row]} at row {row}")
