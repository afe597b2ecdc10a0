"""Ring: arrays that are filled at one end, emptied at the other, and reuse the room in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike


class Ring:
    """A first-in-first-out queue of rows, each a record in one or more columns.

    A row keeps its position from `append` to `drop`; positions after a row's own are found by adding, since
    `take` wraps around. Only `grow` moves rows.

    Args:
        capacity: Rows there is room for.
        **columns: Dtype of each column; structured ones make a row one copy.
    """

    def __init__(self, capacity: int, **columns: DTypeLike) -> None:
        self.capacity = capacity
        self.start = 0
        self.size = 0
        self._columns = {name: np.empty(capacity, dtype) for name, dtype in columns.items()}

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return sum(column.nbytes for column in self._columns.values())

    def add_column(self, name: str, dtype: DTypeLike) -> None:
        """Add a column; rows that are there already hold anything in it."""
        self._columns[name] = np.empty(self.capacity, dtype)

    def append(self, **rows: np.ndarray) -> np.ndarray:
        """Add rows behind the last and return their positions; there must be room.

        Args:
            **rows: (n,) rows of every column.
        """
        count = len(next(iter(rows.values())))
        first = (self.start + self.size) % self.capacity
        before_end = min(count, self.capacity - first)
        for name, column in self._columns.items():
            column[first : first + before_end] = rows[name][:before_end]
            column[: count - before_end] = rows[name][before_end:]
        self.size += count
        return (first + np.arange(count)) % self.capacity

    def drop(self, count: int) -> None:
        """Give up the ``count`` oldest rows."""
        self.start = (self.start + count) % self.capacity
        self.size -= count

    def take(self, column: str, positions: np.ndarray) -> np.ndarray:
        """Return copies of the rows at ``positions``, which may run past the end by up to the capacity."""
        return self._columns[column].take(positions, mode="wrap")

    def grow(self, capacity: int) -> Callable[[np.ndarray], np.ndarray]:
        """Make room for ``capacity`` rows; the oldest moves to position 0, the others follow.

        Returns:
            The function from old positions to new ones.
        """
        live, old_start, old_capacity = self.live(), self.start, self.capacity
        for name, column in self._columns.items():
            larger = np.empty(capacity, column.dtype)
            larger[: self.size] = column.take(live)
            self._columns[name] = larger
        self.start, self.capacity = 0, capacity
        return lambda positions: (positions - old_start) % old_capacity

    def map(self, name: str, function: Callable[[np.ndarray], np.ndarray], field: str | None = None) -> None:
        """Replace the values of all rows in one column, or in one field of it."""
        column = self._columns[name] if field is None else self._columns[name][field]
        live = self.live()
        column[live] = function(column[live])

    def rebuild(self, name: str, function: Callable[..., np.ndarray], *others: str) -> None:
        """Replace a column by ``function`` of it and of other columns, row by row."""
        self._columns[name] = function(*(self._columns[column] for column in (name, *others)))

    def live(self) -> np.ndarray:
        """Return the positions of all rows, oldest first."""
        return (self.start + np.arange(self.size)) % self.capacity
