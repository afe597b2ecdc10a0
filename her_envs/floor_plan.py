"""FloorPlan: a grid of free cells and walls, and the motion of points that cannot cross a wall.

Cells have side 1. The cell in column i and row j, counted from the bottom, is [i, i + 1) x [j, j + 1). All
cells outside the plan are walls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from her_envs.arrays import Movable, cast, namespace
from her_envs.task import Array, require_choice

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


class FloorPlan(Movable):
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
        if not isinstance(layout, list | tuple) or not all(isinstance(row, str) for row in layout):
            raise TypeError(f"layout must be a name, such as 'u', or a list of strings, got {layout!r}")
        if len({len(row) for row in layout}) != 1 or not layout[0] or set("".join(layout)) - {"#", "."}:
            raise ValueError(
                "layout must have rows of one length, at least 1, of '#' for walls and '.' for free cells, "
                f"got {layout!r}"
            )
        self.free = np.array([[letter == "." for letter in row] for row in reversed(layout)])
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

    def draw_points(self, count: int, rng: np.random.Generator) -> Array:
        """Sample points uniformly from the free cells, (count, 2) float32."""
        cells = self._cells[rng.integers(len(self._cells), size=count)]
        return _round_within_cells(cells + rng.random((count, 2)), cells)

    def move(self, points: Array, moves: Array, longest: float = np.inf) -> Array:
        """Move points, (N, 2), which are in free cells, by ``moves``, (N, 2); return (N, 2) float32.

        Points move from cell to cell, one edge at a time. So a move of any length neither crosses a wall nor
        passes between two walls that touch at a corner; a point that reaches a wall slides along it.
        ``longest`` is an upper bound of the moves along each axis.
        """
        functions = namespace(points)
        # Axes first: NumPy is much faster with N elements than with 2 in the last axis.
        place, rest = cast(points.T, "float64"), cast(moves.T, "float64")
        cell, never = functions.floor(place), functions.full_like(place, np.inf)
        # A path has no more edges than the plan has rows and columns, walls that stop it included.
        edges = int(min(sum(self.free.shape), 2 * (longest // 1 + 1)))
        for _ in range(edges + 1):
            if functions is np and not rest.any():  # this question would wait for a tensor's device
                break
            edge = cell + (rest > 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = (edge - place) / rest  # of the remaining move, until an edge along each axis
            shares = functions.where(rest != 0, shares, never)
            vertical, share = shares[1] < shares[0], functions.minimum(shares[0], shares[1])
            meets = functions.stack([~vertical, vertical]) & (share < 1)  # an edge, before the move ends
            share = share.clip(None, 1)
            place = functions.where(meets, edge, place + share * rest)
            beyond = cell + meets * functions.sign(rest)
            column, row = cast(beyond + 1, "int64").clip(0)  # NaN of actions on a device has no index
            free = self._padded[row, column]
            cell = functions.where(free, beyond, cell)
            rest = rest * (1 - share) * (free | ~meets)
        return functions.stack([*_round_within_cells(place, cell)], axis=1)


def _round_within_cells(points: Array, cells: Array) -> Array:
    """Round points to float32, but not out of their cells."""
    functions, low = namespace(points), cast(cells, "float32")
    return functions.clip(cast(points, "float32"), low, functions.nextafter(cast(cells + 1, "float32"), low))


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
