"""Ring: arrays that are filled at one end, emptied at the other, and reuse the room in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike


class Ring:
    """A first-in-first-out queue of rows, each a record in one or more columns.

    Rows are numbered in the order in which they come. A number is never used again, and stays with its row
    wherever that moves.

    Args:
        capacity: Rows there is room for.
        first: Number of the row that will come first.
        **columns: Dtype of each column; structured ones make a row one copy.

    Attributes:
        capacity: Rows there is room for.
        first: Number of the oldest row.
        end: Number of the row that will come next.
    """

    def __init__(self, capacity: int, first: int = 0, **columns: DTypeLike) -> None:
        self.capacity = capacity
        self.first = first
        self.end = first
        self._columns = {name: np.empty(capacity, dtype) for name, dtype in columns.items()}
        self._turn()

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.end - self.first

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return sum(column.nbytes for column in self._columns.values())

    def add_column(self, name: str, dtype: DTypeLike) -> None:
        """Add a column; rows that are there already hold anything in it."""
        self._columns[name] = np.empty(self.capacity, dtype)

    def append(self, **rows: np.ndarray) -> None:
        """Add rows behind the last; there must be room.

        Args:
            **rows: (n,) rows of every column.
        """
        count = len(next(iter(rows.values())))
        first = self.end % self.capacity
        before_end = min(count, self.capacity - first)
        for name, column in self._columns.items():
            column[first : first + before_end] = rows[name][:before_end]
            column[: count - before_end] = rows[name][before_end:]
        self.end += count
        self._turn()

    def drop_before(self, number: int) -> None:
        """Give up the rows before the one with this number."""
        self.first = number

    def take(self, column: str, numbers: np.ndarray) -> np.ndarray:
        """Return copies of rows."""
        return self._columns[column].take(numbers - self._origin)

    def take_field(self, column: str, field: str, numbers: np.ndarray) -> np.ndarray:
        """Return copies of one field of rows."""
        values = self._columns[column][field]
        # As plain bytes, since NumPy picks structured rows out of their column one field at a time.
        picked: np.ndarray = values.view(f"V{values.itemsize}")[numbers - self._origin]
        return picked.view(values.dtype)

    def take_range(self, column: str, first: int, end: int) -> np.ndarray:
        """Return copies of the rows from number ``first`` to before ``end``."""
        return self.take(column, np.arange(first, end))

    def grow(self, capacity: int) -> None:
        """Make room for ``capacity`` rows."""
        numbers = np.arange(self.first, self.end)
        for name, column in self._columns.items():
            larger = np.empty(capacity, column.dtype)
            larger[numbers % capacity] = column[numbers % self.capacity]
            self._columns[name] = larger
        self.capacity = capacity
        self._turn()

    def rebuild(self, column: str, function: Callable[[np.ndarray], np.ndarray]) -> None:
        """Replace a column by a function of it, row by row."""
        self._columns[column] = function(self._columns[column])

    def _turn(self) -> None:
        # Row i stands at i % capacity. Counted from the last multiple of the capacity, live rows have numbers
        # from -capacity to capacity - 1, with which NumPy finds them without the division.
        self._origin = self.end - self.end % self.capacity
