"""Ring: arrays that are filled at one end, emptied at the other, and reuse the room in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.replay.arrays import plain

if TYPE_CHECKING:
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
        self._dtypes: dict[str, np.dtype[Any]] = {}
        # As plain bytes: of records, NumPy makes more ado, and picks them apart field by field.
        self._bytes: dict[str, np.ndarray] = {}
        self._starts: dict[tuple[str, int], np.ndarray] = {}  # views, made when asked for
        for name, dtype in columns.items():
            self.add_column(name, dtype)
        self._turn()

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.end - self.first

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return sum(column.nbytes for column in self._bytes.values())

    def column(self, name: str) -> Any:
        """Return the memory of a column: row i at i modulo the capacity."""
        # A view, made in half the time that `view` needs; so are those below.
        return np.ndarray(self.capacity, self._dtypes[name], self._bytes[name])

    def add_column(self, name: str, dtype: DTypeLike) -> None:
        """Add or replace a column; its rows hold anything."""
        self._set_column(name, self._memory(name, dtype))

    def widen_column(self, name: str, dtype: DTypeLike) -> None:
        """Give a column of records wider fields, or more of them, which hold anything."""
        narrow, wider = self.column(name), self._memory(name, dtype)
        for field in narrow.dtype.names or ():
            wider[field] = narrow[field]
        self._set_column(name, wider)

    def _memory(self, name: str, dtype: DTypeLike) -> Any:
        return np.empty(self.capacity, dtype)

    def _set_column(self, name: str, values: np.ndarray) -> None:
        self._dtypes[name] = values.dtype
        self._bytes[name] = values.view(plain(values.itemsize))
        self._starts.clear()

    def append(self, **rows: np.ndarray) -> list[tuple[slice, slice]]:
        """Add rows behind the last; there must be room.

        Args:
            **rows: (n,) rows of every column, in its dtype, without gaps between them.

        Returns:
            Where they stand, as from `reserve`.
        """
        pieces = self.reserve(len(next(iter(rows.values()))))
        for name, column in self._bytes.items():
            values = np.ndarray(len(rows[name]), column.dtype, rows[name])
            for there, here in pieces:
                column[there] = values[here]
        return pieces

    def reserve(self, count: int) -> list[tuple[slice, slice]]:
        """Add rows behind the last that hold anything; there must be room.

        Returns:
            Where they stand: one or two slices of a column's memory, each with the slice of the new rows.
        """
        pieces = self._pieces(self.end, count)
        self.end += count
        self._turn()
        return pieces

    def restart(self, number: int) -> None:
        """Give up all rows; the next one gets this number."""
        self.first = self.end = number
        self._turn()

    def drop_before(self, number: int) -> None:
        """Give up the rows before the one with this number."""
        self.first = number

    def positions(self, numbers: np.ndarray) -> np.ndarray:
        """Return where rows stand until the next `append`; a row's successor stands one further."""
        return numbers - self._origin

    def places(self, numbers: np.ndarray) -> np.ndarray:
        """Return positions that hold until the next `grow`, for (n,) numbers of rows there are or will be."""
        return numbers % self.capacity

    def numbers(self, places: np.ndarray) -> np.ndarray:
        """Return which rows stand at these places, which may be of a dtype too short for the numbers."""
        newest = self.end - 1
        numbers: np.ndarray = newest - (newest - places.astype(np.int64)) % self.capacity
        return numbers

    def take(self, column: str, positions: np.ndarray) -> np.ndarray:
        """Return copies of rows, in the shape of the positions."""
        return np.ndarray(positions.shape, self._dtypes[column], self.take_bytes(column, positions))

    def take_bytes(self, column: str, positions: np.ndarray) -> np.ndarray:
        """Return copies of rows as plain bytes."""
        # To wrap is quicker than to see that all positions are valid: by a quarter, where memory is slow.
        return self._bytes[column].take(positions, mode="wrap")

    def take_starts(self, column: str, size: int, positions: np.ndarray) -> np.ndarray:
        """Return copies of the first ``size`` bytes of (n,) rows, as plain bytes."""
        if (column, size) not in self._starts:
            rows = self._bytes[column]
            self._starts[column, size] = np.ndarray(rows.shape, plain(size), rows, 0, rows.strides)
        starts: np.ndarray = self._starts[column, size][positions]
        return starts

    def row(self, column: str, number: int) -> Any:
        """Return one row; records are views."""
        return self.column(column)[number % self.capacity]

    def take_range(self, column: str, first: int, end: int) -> np.ndarray:
        """Return copies of the rows with the numbers from ``first`` to before ``end``."""
        return self.take(column, self.positions(np.arange(first, end)))

    def grow(self, capacity: int) -> None:
        """Make room for ``capacity`` rows.

        Raises:
            MemoryError: There is not so much memory; nothing changes.
        """
        numbers = np.arange(self.first, self.end)
        larger = {name: np.empty(capacity, column.dtype) for name, column in self._bytes.items()}
        for name, column in self._bytes.items():
            larger[name][numbers % capacity] = column[numbers % self.capacity]
        self._bytes, self.capacity = larger, capacity
        self._starts.clear()
        self._turn()

    def _turn(self) -> None:
        # Row i stands at i % capacity. Counted from the last multiple of the capacity, live rows have numbers
        # from -capacity to capacity - 1, with which NumPy finds them without the division.
        self._origin = self.end - self.end % self.capacity

    def _pieces(self, number: int, count: int) -> list[tuple[slice, slice]]:
        """Return where ``count`` rows from this number on stand, see `reserve`."""
        first = number % self.capacity
        before_end = min(count, self.capacity - first)
        pieces = [(slice(first, first + before_end), slice(0, before_end))]
        if before_end < count:
            pieces.append((slice(0, count - before_end), slice(before_end, count)))
        return pieces

    def _live(self) -> list[slice]:
        """Return where the rows that there are stand, oldest first."""
        return [there for there, _ in self._pieces(self.first, len(self))]

    def __getstate__(self) -> dict[str, Any]:
        """Keep the rows that there are, in pieces; copies and pickles make room for more themselves."""
        rows = {name: [column[there] for there in self._live()] for name, column in self._bytes.items()}
        return self.__dict__ | {"_bytes": rows, "_starts": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over rows, in memory of the same capacity as before."""
        self.__dict__.update(state, _bytes={})
        for name, pieces in state["_bytes"].items():
            self.add_column(name, self._dtypes[name])
            for there, rows in zip(self._live(), pieces, strict=True):
                self._bytes[name][there] = rows
