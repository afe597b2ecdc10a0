"""FloorPlan: a grid of free cells and walls, and the motion of points that cannot cross a wall.

Cells have side 1. The cell in column i and row j, counted from the bottom, is [i, i + 1) x [j, j + 1). All
cells outside the plan are walls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from her_envs.task import require_choice

LayoutName = Literal["open", "u", "four_rooms", "large"]

LAYOUTS: dict[str, tuple[str, ...]] = {
    "open": (".....",) * 5,
    "u": (
        "...",
        "##.",
        "...",
    ),
    # Sutton, Precup and Singh 1999, Between MDPs and semi-MDPs, figure 2
    "four_rooms": (
        ".....#.....",
        ".....#.....",
        "...........",
        ".....#.....",
        ".....#.....",
        "#.####.....",
        ".....###.##",
        ".....#.....",
        ".....#.....",
        "...........",
        ".....#.....",
    ),
    "large": (
        "....#......",
        ".##.#.####.",
        ".#....#....",
        ".#.####.##.",
        ".#....#.#..",
        ".####...#.#",
        "......#.#..",
        "#.###.#.##.",
        "..#...#....",
        ".##.#####.#",
        "....#......",
    ),
}


class FloorPlan:
    """Walls on a grid.

    Args:
        layout: A name of `LAYOUTS`, or rows of ``#`` for walls and ``.`` for free cells, the top row first.

    Attributes:
        free: (rows, columns) bool, whether each cell is free; the bottom row first.
        max_grid_distance: Upper bound on the length of the shortest path between any two free cells [cells].

    Raises:
        TypeError: The layout is neither a name nor a list or tuple of strings.
        ValueError: The layout is unknown, empty, or has rows of different lengths, other letters, no free
            cell, or free cells that are not connected.
    """

    def __init__(self, layout: LayoutName | Sequence[str]) -> None:
        if isinstance(layout, str):
            require_choice("layout", layout, tuple(LAYOUTS))
            layout = LAYOUTS[layout]
        self.free = _parse(layout)
        self._cells = np.argwhere(self.free)[:, ::-1]  # (cells, 2) column and row
        self._padded = np.pad(self.free, 1)
        # A path between two cells can pass through the first cell.
        self.max_grid_distance = 2 * _max_grid_distance(self.free)

    def contains(self, points: np.ndarray) -> np.ndarray:
        """Return whether points (N, 2) are in free cells, (N,) bool."""
        rows, columns = self.free.shape
        x, y = points.T
        inside = (x >= 0) & (x < columns) & (y >= 0) & (y < rows)
        cells = np.where(inside, points.T, 0).astype(np.int64)
        free: np.ndarray = inside & self.free[cells[1], cells[0]]
        return free

    def draw_points(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Sample points uniformly from the free cells, (count, 2) float32."""
        cells = self._cells[rng.integers(len(self._cells), size=count)]
        return _round_within_cells(cells + rng.random((count, 2)), cells)

    def move(self, points: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Move points, (N, 2), which are in free cells, by ``moves``, (N, 2); return (N, 2) float32.

        Points move from cell to cell, one edge at a time. So a move of any length neither crosses a wall nor
        passes between two walls that touch at a corner; a point that reaches a wall slides along it.
        """
        # Axes first: NumPy is much faster with N elements than with 2 in the last axis.
        place, rest = points.T.astype(np.float64), moves.T.astype(np.float64)
        cell, end = np.floor(place).astype(np.int64), place + rest
        leaving = (np.floor(end) != cell).any(axis=0)
        place = np.where(leaving, place, end)
        moving = np.flatnonzero(leaving)
        while moving.size:
            moving = self._cross_edge(place, rest, cell, moving)
        return np.ascontiguousarray(_round_within_cells(place, cell).T)

    def _cross_edge(
        self, place: np.ndarray, rest: np.ndarray, cell: np.ndarray, moving: np.ndarray
    ) -> np.ndarray:
        """Move the points ``moving`` to an edge of their cells or, if nearer, to the end of their move.

        Change the arrays, with a column for each point, in place; return the points not at their end yet.
        """
        edge = cell[:, moving] + (rest[:, moving] > 0)
        shares = np.full((2, moving.size), np.inf)  # of the remaining move, along each axis
        np.divide(edge - place[:, moving], rest[:, moving], out=shares, where=rest[:, moving] != 0)
        share = np.minimum(shares[0], shares[1])
        ending, crossing = moving[share >= 1], share < 1
        place[:, ending] += rest[:, ending]
        moving, share = moving[crossing], share[crossing]
        axis = (shares[1] < shares[0])[crossing].astype(np.int64)
        place[:, moving] += share * rest[:, moving]
        place[axis, moving] = np.where(axis, edge[1, crossing], edge[0, crossing])
        rest[:, moving] *= 1 - share
        beyond = cell[:, moving]
        beyond[axis, np.arange(len(moving))] += np.sign(rest[axis, moving]).astype(np.int64)
        free = self._padded[beyond[1] + 1, beyond[0] + 1]
        cell[:, moving[free]] = beyond[:, free]
        rest[axis[~free], moving[~free]] = 0
        return moving


def _round_within_cells(points: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Round points to float32, but not out of their cells."""
    last = np.nextafter(np.float32(cells + 1), np.float32(0))
    held: np.ndarray = np.clip(points.astype(np.float32), cells.astype(np.float32), last)
    return held


def _parse(layout: Sequence[str]) -> np.ndarray:
    """Return whether each cell is free, (rows, columns) bool, the bottom row first."""
    if not isinstance(layout, list | tuple) or not all(isinstance(row, str) for row in layout):
        raise TypeError(f"layout must be a name, such as 'u', or a list of strings, got {layout!r}")
    if not layout or not layout[0]:
        raise ValueError(f"layout must have at least one row and one column, got {layout!r}")
    for number, row in enumerate(layout):
        if len(row) != len(layout[0]):
            raise ValueError(
                f"layout rows must have the same length, got {len(layout[0])} letters in row 0 "
                f"and {len(row)} in row {number}"
            )
        if unknown := set(row) - {"#", "."}:
            raise ValueError(
                f"layout has an unknown letter {min(unknown)!r} in row {number}; "
                "use '#' for a wall and '.' for free space"
            )
    return np.array([[letter == "." for letter in row] for row in reversed(layout)])


def _max_grid_distance(free: np.ndarray) -> int:
    """Return the length of the shortest path from the first free cell to the farthest free cell, in cells."""
    if not free.any():
        raise ValueError("layout must have a free cell, got none; use '.' for free space")
    reached = np.zeros_like(free)
    reached[tuple(np.argwhere(free)[0])] = True
    steps = 0
    while True:
        near = np.pad(reached, 1)
        spread = near[2:, 1:-1] | near[:-2, 1:-1] | near[1:-1, 2:] | near[1:-1, :-2]
        spread = (spread | reached) & free
        if (spread == reached).all():
            break
        reached, steps = spread, steps + 1
    if (reached != free).any():
        cells = [np.argwhere(part)[0] for part in (free, free & ~reached)]
        begin, end = (f"layout[{len(free) - 1 - row}][{column}]" for row, column in cells)
        raise ValueError(f"layout must connect all free cells, but there is no path from {begin} to {end}")
    return steps
