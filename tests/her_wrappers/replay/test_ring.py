"""Ring against a list: whatever is added, dropped and grown, the queue is the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from her_wrappers.replay.ring import Ring

PAIR = np.dtype([("value", np.int64), ("position", np.int32)])


@given(st.integers(1, 9), st.lists(st.tuples(st.sampled_from(["append", "drop", "grow"]), st.integers(0, 9))))
def test_a_ring_is_a_queue(capacity, steps):
    ring, expected, positions, issued = Ring(capacity, number=np.int64, pair=PAIR), [], np.empty(0, int), 0
    for what, wanted in steps:
        count = wanted
        if what == "append":
            count = min(wanted, ring.capacity - ring.size)
            numbers = np.arange(issued, issued + count)
            pairs = np.zeros(count, PAIR)
            pairs["value"] = 10 * numbers
            added = ring.append(number=numbers, pair=pairs)
            positions, issued = np.append(positions, added), issued + count
            expected += numbers.tolist()
        elif what == "drop":
            count = min(wanted, ring.size)
            ring.drop(count)
            positions, expected = positions[count:], expected[count:]
        else:
            moved = ring.grow(ring.capacity + count)
            positions = moved(positions)

        assert ring.size == len(expected)
        assert ring.take("number", positions).tolist() == expected
        assert ring.take("pair", positions)["value"].tolist() == [10 * number for number in expected]
        if expected:
            following = positions[0] + np.arange(len(expected))
            assert ring.take("number", following).tolist() == expected, "rows stand one behind the other"


def test_map_changes_one_field_of_the_live_rows():
    ring = Ring(4, pair=PAIR)
    ring.append(pair=np.zeros(3, PAIR))
    ring.drop(2)
    ring.append(pair=np.zeros(3, PAIR))
    ring.map("pair", lambda values: values + 7, "value")
    ring.map("pair", lambda values: values + 1, "position")
    rows = ring.take("pair", ring.start + np.arange(4))
    assert rows["value"].tolist() == [7] * 4
    assert rows["position"].tolist() == [1] * 4


def test_a_take_is_a_copy():
    ring = Ring(2, number=np.int64)
    ring.append(number=np.array([5, 6]))
    ring.take("number", np.array([0, 1]))[:] = 0
    assert ring.take("number", np.array([0, 1])).tolist() == [5, 6]
