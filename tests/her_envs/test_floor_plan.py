"""Floor plans: what a layout may be, and that no move crosses a wall."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from her_envs.floor_plan import LAYOUTS, FloorPlan

layouts = st.tuples(st.integers(1, 6), st.integers(1, 6)).flatmap(
    lambda size: st.lists(
        st.text(alphabet="...#", min_size=size[0], max_size=size[0]), min_size=size[1], max_size=size[1]
    )
)


def connected_plan(layout):
    """The plan of a layout; a layout that is none is no example."""
    try:
        return FloorPlan(layout)
    except ValueError:
        assume(False)


def straight_way_exists(free, start, end):
    """Whether free cells lead from one cell to another without ever turning back along an axis."""
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


@settings(max_examples=300)
@given(
    layout=layouts, length=st.sampled_from([1e-6, 0.1, 0.9, 1.0, 3.0, 40.0, 1e12]), seed=st.integers(0, 2**32)
)
def test_no_wall_is_crossed_however_long_the_move(layout, length, seed):
    """A point that only moves on through free cells, and never turns back, cannot have jumped a wall."""
    plan, rng = connected_plan(layout), np.random.default_rng(seed)
    points = plan.draw_points(40, rng)
    # On edges and corners of cells too, where a move may begin after it was stopped there.
    points[:10] = np.floor(points[:10])
    for _ in range(4):
        moves = length * rng.uniform(-1, 1, points.shape)
        moves[rng.random(moves.shape) < 0.2] = 0
        moved = plan.move(points, moves)
        assert moved.dtype == np.float32
        assert plan.contains(moved).all()
        starts, ends = np.floor(points).astype(int), np.floor(moved).astype(int)
        for start, end in zip(starts, ends, strict=True):
            assert straight_way_exists(plan.free, start, end)
        points = moved


@given(layout=layouts, seed=st.integers(0, 2**32))
def test_a_move_falls_short_only_where_a_wall_stands(layout, seed):
    plan, rng = connected_plan(layout), np.random.default_rng(seed)
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
def test_a_point_loses_what_goes_into_a_wall_and_keeps_the_rest(layout, start, move, end):
    moved = FloorPlan(layout).move(np.float32([start]), np.float32([move]))
    np.testing.assert_allclose(moved[0], end, atol=1e-6)


def test_walls_that_touch_at_a_corner_let_nothing_through():
    plan = FloorPlan(["...", ".#.", "..#", "..."])
    moved = plan.move(np.float32([[1.5, 1.5]]), np.float32([[1.0, 1.0]]))
    np.testing.assert_allclose(moved[0], [2.0, 2.0], atol=1e-6)
    assert (moved < 2).all()


def test_points_are_drawn_uniformly_from_the_free_cells():
    plan = FloorPlan(["..#", "#.."])
    points = plan.draw_points(8000, np.random.default_rng(0))
    assert plan.contains(points).all()
    cells = np.floor(points).astype(int)
    counts = np.unique(cells, axis=0, return_counts=True)[1]
    assert stats.chisquare(counts).pvalue > 1e-4
    assert stats.kstest((points % 1).ravel(), "uniform").pvalue > 1e-4


def test_the_top_row_of_a_layout_is_the_top_of_the_plan():
    plan = FloorPlan(["#..", "..."])
    points = np.float32([[0.5, 0.5], [0.5, 1.5], [2.5, 1.5], [-0.1, 0.5], [3.0, 0.5], [0.5, np.nan]])
    assert plan.contains(points).tolist() == [True, False, True, False, False, False]


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_longest_way_bounds_the_way_between_any_two_cells(name):
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
        assert steps <= plan.longest_way


BAD_LAYOUTS = [
    ("maze", "unknown layout 'maze'; choose from 'open', 'u', 'four_rooms', 'large'"),
    ([], "layout must have at least one row and one column, got []"),
    ([""], "layout must have at least one row and one column, got ['']"),
    (["..", "..."], "layout rows must have one length, got 2 letters in row 0 and 3 in row 1"),
    (["..", ".x"], "layout has an unknown letter 'x' in row 1; use '#' for a wall and '.' for free space"),
    (["##"], "layout has no free cell; use '.' for free space"),
    (
        ["..#", "##."],
        "layout must be one connected space, got a free cell without a way to the others in row 0, column 0",
    ),
]


@pytest.mark.parametrize(("layout", "message"), BAD_LAYOUTS)
def test_a_bad_layout_is_refused_in_one_sentence(layout, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        FloorPlan(layout)


@pytest.mark.parametrize("layout", [5, [["."]]])
def test_a_layout_of_another_type_is_refused(layout):
    message = f"layout must be a name or a list of strings, got {layout}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        FloorPlan(layout)
