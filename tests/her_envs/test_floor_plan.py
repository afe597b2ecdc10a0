"""Floor plans: layouts are validated, and no move crosses a wall."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from her_envs import PointMaze
from her_envs.floor_plan import LAYOUTS, FloorPlan

layouts = st.tuples(st.integers(1, 6), st.integers(1, 6)).flatmap(
    lambda size: st.lists(
        st.text(alphabet="...#", min_size=size[0], max_size=size[0]), min_size=size[1], max_size=size[1]
    )
)


def plan_or_reject(layout):
    """Return the plan of a layout; invalid layouts are not used as examples."""
    try:
        return FloorPlan(layout)
    except ValueError:
        assume(False)


def monotone_path_exists(free, start, end):
    """Return whether a path of free cells connects two cells and is monotone along both axes."""
    step = [1 if b >= a else -1 for a, b in zip(start, end, strict=True)]
    columns = range(start[0], end[0] + step[0], step[0])
    rows = range(start[1], end[1] + step[1], step[1])
    reached = set()
    for column in columns:
        for row in rows:
            came = {(column - step[0], row), (column, row - step[1])} & reached
            if free[row, column] and (came or (column, row) == tuple(start)):
                reached.add((column, row))
    return tuple(end) in reached


@settings(max_examples=25)
@given(
    layout=layouts, length=st.sampled_from([1e-6, 0.1, 0.9, 1.0, 3.0, 40.0, 1e12]), seed=st.integers(0, 2**32)
)
def test_moves_of_any_length_cross_no_wall(layout, length, seed):
    """A point that passes through free cells on a monotone path cannot have crossed a wall."""
    plan, rng = plan_or_reject(layout), np.random.default_rng(seed)
    points = plan.draw_points(40, rng)
    # Points at corners of cells, where stopped moves can leave a point.
    points[:10] = np.floor(points[:10])
    for _ in range(4):
        moves = length * rng.uniform(-1, 1, points.shape)
        moves[rng.random(moves.shape) < 0.2] = 0
        moved = plan.move(points, moves)
        assert moved.dtype == np.float32
        assert plan.contains(moved).all()
        starts, ends = np.floor(points).astype(int), np.floor(moved).astype(int)
        for start, end in zip(starts, ends, strict=True):
            assert monotone_path_exists(plan.free, start, end)
        points = moved


@settings(max_examples=25)
@given(layout=layouts, seed=st.integers(0, 2**32))
def test_move_is_shortened_only_at_a_wall(layout, seed):
    plan, rng = plan_or_reject(layout), np.random.default_rng(seed)
    points = plan.draw_points(60, rng)
    moves = rng.uniform(-2, 2, points.shape)
    moved = plan.move(points, moves)
    low = np.floor(np.minimum(points, points + moves)).astype(int)
    high = np.floor(np.maximum(points, points + moves)).astype(int)
    padded = np.pad(plan.free, 4)
    for point, move, end, first, last in zip(points, moves, moved, low + 4, high + 4, strict=True):
        if padded[first[1] : last[1] + 1, first[0] : last[0] + 1].all():
            np.testing.assert_allclose(end, point + move, atol=1e-6)
        assert (abs(end - point) <= abs(move) + 1e-6).all()
        assert ((end - point) * move >= -1e-6).all()


MOVES = [
    # layout, from, move, to
    (["."], (0.5, 0.5), (9.0, -9.0), (1.0, 0.0)),
    ([".#"], (0.5, 0.5), (9.0, 0.2), (1.0, 0.7)),
    ([".#.", "..."], (0.5, 1.5), (2.0, -1.0), (1.0, 0.5)),
    ([".#.", "..."], (0.5, 1.5), (2.0, -4.0), (2.5, 0.0)),
    ([".#", ".."], (1.5, 0.5), (0.0, 0.9), (1.5, 1.0)),
    (["...", ".#.", "..."], (0.0, 0.5), (3.0, 2.5), (1.0, 3.0)),
    (["...", ".#.", "..."], (0.0, 0.0), (3.0, 3.0), (3.0, 1.0)),
]


@pytest.mark.parametrize(("layout", "start", "move", "end"), MOVES)
def test_point_slides_along_a_wall(layout, start, move, end):
    moved = FloorPlan(layout).move(np.float32([start]), np.float32([move]))
    np.testing.assert_allclose(moved[0], end, atol=1e-6)


def test_points_are_uniform_over_the_free_cells():
    plan = FloorPlan(["..#", "#.."])
    points = plan.draw_points(8000, np.random.default_rng(0))
    assert plan.contains(points).all()
    cells = np.floor(points).astype(int)
    counts = np.unique(cells, axis=0, return_counts=True)[1]
    assert stats.chisquare(counts).pvalue > 1e-4
    assert stats.kstest((points % 1).ravel(), "uniform").pvalue > 1e-4


def test_first_row_of_a_layout_is_the_top_row():
    plan = FloorPlan(["#..", "..."])
    points = np.float32([[0.5, 0.5], [0.5, 1.5], [2.5, 1.5], [-0.1, 0.5], [3.0, 0.5], [0.5, np.nan]])
    assert plan.contains(points).tolist() == [True, False, True, False, False, False]


@pytest.mark.parametrize("name", LAYOUTS)
def test_max_grid_distance_bounds_the_distance_of_any_two_cells(name):
    plan = FloorPlan(name)
    cells = [tuple(cell) for cell in np.argwhere(plan.free)]
    for start in cells[::7]:
        steps, ring, seen = 0, {start}, {start}
        while ring:
            around = {(r + a, c + b) for r, c in ring for a, b in ((0, 1), (1, 0), (0, -1), (-1, 0))}
            ring = (around & set(cells)) - seen
            seen |= ring
            steps += bool(ring)
        assert len(seen) == len(cells)
        assert steps <= plan.max_grid_distance
    assert 0 <= 0.3 * PointMaze(layout=name, step_size=0.3).max_steps - (plan.max_grid_distance + 2) < 0.3


@pytest.mark.parametrize(
    ("layout", "error"),
    [
        ("maze", ValueError),  # not a name
        ([], ValueError),
        ([""], ValueError),
        (["..", "..."], ValueError),
        (["..", ".x"], ValueError),
        (["##"], ValueError),  # no free cell
        (["..#", "##."], ValueError),  # two parts without a path
        (5, TypeError),
        ([["."]], TypeError),
    ],
)
def test_a_bad_layout_raises_an_error(layout, error):
    with pytest.raises(error, match="layout"):
        FloorPlan(layout)
