"""Priorities of stored transitions: which are drawn how often, and the weights that make up for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.replay.priorities.given import LARGEST, as_index, as_priorities, require_all
from her_wrappers.replay.priorities.priority import Priority, require_between, require_priority
from her_wrappers.replay.priorities.sum_tree import SumTree

if TYPE_CHECKING:
    from her_wrappers.replay.storage.draw import Draw
    from her_wrappers.replay.storage.episode_storage import EpisodeStorage

FIRST_PRIORITY = 1.0
"""Of new transitions, until a larger one is given."""

ROUNDING = 1e-12
"""Numbers that differ relatively by less are taken for the same."""


class SavedPriorities(NamedTuple):
    """The priorities of a buffer.

    Attributes:
        largest: The largest that was given.
        scaled: (n,) float64, what the probabilities of the stored steps are in proportion to, oldest first.
    """

    largest: float
    scaled: np.ndarray


class NoPriorities:
    """Draws uniformly: what stands for `Priorities` in a buffer without.

    Args:
        storage: Where the steps are.
    """

    nbytes = 0

    def __init__(self, storage: EpisodeStorage) -> None:
        self._storage = storage

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draw numbers of steps uniformly, with replacement."""
        return self._storage.draw(count, rng)

    def require_beta(self, beta: float | None) -> None:
        """Refuse any.

        Raises:
            ValueError: There is one.
        """
        if beta is not None:
            raise ValueError(
                f"beta is for a buffer with priorities, got {beta!r}; make it with prioritized=Priority(), "
                "or leave beta out"
            )

    def weights(self, draw: Draw, beta: float | None) -> Any:
        """Return ones, where the storage has its records."""
        return draw.weights

    def update(self, index: Any, priorities: Any) -> int:
        """Refuse priorities.

        Raises:
            ValueError: Always.
        """
        raise ValueError("this buffer has no priorities; make it with prioritized=Priority()")

    def forget(self) -> None:
        """Do nothing."""

    def verify(self) -> None:
        """Do nothing."""

    def saved(self) -> None:
        """Return nothing."""

    def restore(self, saved: SavedPriorities, first: int, priority: Priority | None) -> None:
        """Do nothing."""


class Priorities:
    """The priorities of the steps in a storage, which they follow as it adds and evicts.

    Args:
        storage: Where the steps are.
        buffer_size: Steps that it holds.
        priority: How priorities decide what is drawn.

    Raises:
        MemoryError: There is not so much memory: about 8.6 bytes a step.
    """

    def __init__(self, storage: EpisodeStorage, buffer_size: int, priority: Priority) -> None:
        self._storage = storage
        self._capacity = buffer_size
        self._priority = priority
        self._tree = SumTree(buffer_size)  # step i at i modulo the capacity; 0 where there is none
        self._first = self._end = 0  # numbers of the steps that are in the tree
        self._largest = FIRST_PRIORITY

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return self._tree.nbytes

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draw numbers of steps in proportion to their priorities, each by itself, with replacement."""
        self._follow()
        places = self._tree.find(rng.random(count))
        numbers: np.ndarray = self._first + (places - self._first) % self._capacity
        return numbers

    def require_beta(self, beta: float | None) -> None:
        """Refuse what is no exponent of weights.

        Raises:
            ValueError: It is neither in [0, 1] nor None.
        """
        if beta is not None:
            require_between("beta", beta, 0, 1)

    def weights(self, draw: Draw, beta: float | None) -> Any:
        """Return what makes up for the probabilities P of steps: (N P)^-beta, over the largest of them.

        Args:
            draw: The (B,) steps.
            beta: The exponent; None for that of the priorities.

        Returns:
            (B,) float32 in [0, 1], where the storage has its records.
        """
        scaled = self._tree.get(draw.host_numbers % self._capacity)
        # N and the sum that makes probabilities of priorities are the same for all rows.
        weights: np.ndarray = (scaled.min() / scaled) ** (self._priority.beta if beta is None else beta)
        return self._storage.there(weights.astype(np.float32))

    def update(self, index: Any, priorities: Any) -> int:
        """Give steps new priorities, and return how many are left out, since they are evicted.

        Raises:
            ValueError: They do not go together, or are no numbers of steps or no priorities; nothing changes.
        """
        index, priorities = as_index(index), as_priorities(priorities)
        if priorities.shape != index.shape:
            raise ValueError(
                f"priorities must be one for each index, of shape {index.shape}, got {priorities.shape}"
            )
        self._follow()
        given = (index >= 0) & (index < self._end)
        require_all("index", index, given, "numbers that this buffer has given, as batch.index")
        stored = index >= self._first
        index, priorities = index[stored].astype(np.int64), priorities[stored]
        if len(index):
            self._tree.set(index % self._capacity, self._priority.scale(priorities))
            self._largest = max(self._largest, float(priorities.max()))
        return len(stored) - len(index)

    def forget(self) -> None:
        """Forget the largest priority; the steps are found gone with the storage's."""
        self._largest = FIRST_PRIORITY

    def verify(self) -> None:
        """Check that the stored steps have a priority, no others have one, and the sums agree.

        Raises:
            RuntimeError: It is not so.
        """
        self._follow()
        numbers = self._first + np.arange(self._capacity)
        stored = self._tree.get(numbers % self._capacity) > 0
        if not np.array_equal(stored, numbers < self._end):
            raise RuntimeError("the buffer is corrupted: its priorities are not those of its steps")
        self._tree.verify()

    def saved(self) -> SavedPriorities:
        """Return the priorities of all stored steps."""
        self._follow()
        return SavedPriorities(
            self._largest, self._tree.get(np.arange(self._first, self._end) % self._capacity)
        )

    def restore(self, saved: SavedPriorities, first: int, priority: Priority | None) -> None:
        """Take over priorities of steps that the storage holds, or held before the oldest had to go.

        Args:
            saved: What another buffer saved.
            first: Number of the oldest step then.
            priority: How they decided what was drawn; where it was otherwise, all begin anew.

        Raises:
            ValueError: They are no priorities of these steps.
        """
        self._follow()
        if not self._priority.scales_like(priority):
            return
        largest, scaled = saved
        lowest, highest = self._priority.scale(0.0), self._priority.scale(largest)
        if not FIRST_PRIORITY <= largest <= LARGEST:
            raise ValueError(
                f"expected a largest priority from {FIRST_PRIORITY:g} to {LARGEST:g}, got {largest}"
            )
        if scaled.shape != (self._end - first,) or scaled.dtype != np.float64:
            raise ValueError(
                f"expected {self._end - first} priorities, got {scaled.dtype} of shape {scaled.shape}"
            )
        # Powers of arrays are not those of single numbers to the last bit.
        possible = (scaled >= lowest * (1 - ROUNDING)) & (scaled <= highest * (1 + ROUNDING))
        require_all("priorities", scaled, possible, f"between {lowest:g} and {highest:g}")
        self._set_range(self._first, scaled[self._first - first :])
        self._largest = largest

    def _follow(self) -> None:
        """Take note of the steps that have come and gone since the last time.

        Any number of episodes cost little more than one that way, and no failure while one is added can part
        the tree from the storage. A step comes with the largest priority of now, which is that of then:
        `update` takes note first.
        """
        first, end = self._storage.first_index, self._storage.first_index + self._storage.num_steps
        if (first, end) == (self._first, self._end):
            return
        self._set_range(self._first, np.zeros(min(first, self._end) - self._first))
        newest = max(first, self._end)
        self._set_range(newest, np.full(end - newest, self._priority.scale(self._largest)))
        self._first, self._end = first, end

    def _set_range(self, first: int, scaled: np.ndarray) -> None:
        """Put (n,) numbers into the tree for steps in a row."""
        place = first % self._capacity
        before_end = self._capacity - place
        for begin, piece in ((place, scaled[:before_end]), (0, scaled[before_end:])):
            if len(piece):
                self._tree.set_range(begin, begin + len(piece), piece)


def make_priorities(
    priority: Priority | None, storage: EpisodeStorage, buffer_size: int
) -> Priorities | NoPriorities:
    """Return the priorities of the steps in a storage, if they are to have any."""
    require_priority(priority)
    return NoPriorities(storage) if priority is None else Priorities(storage, buffer_size, priority)
