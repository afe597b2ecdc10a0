"""Comparisons of values: exact, up to rounding, and of memory."""

import numpy as np
import pytest

from her_wrappers.checker.comparing import arrays_in, close, first_difference, identical, share_memory

ROW = np.arange(6.0)


OBJECTS = np.array([1.0, "a"], object)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (1.0, 1.0 + 1e-7, True),
        (np.nan, np.nan, True),
        (1.0, 1.001, False),
        (1.0, np.nan, False),
        (1.0, np.inf, False),
        (np.ones(2), np.ones(3), False),
        ("a", "b", False),
        (OBJECTS, np.array([1.0, "b"], object), False),
    ],
)
def test_close_means_up_to_rounding(a, b, expected):
    assert close(a, b) == expected
    assert close(np.asarray(a), np.asarray(b)) == expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (ROW, ROW.copy(), True),
        (ROW, ROW + 1e-12, False),
        (ROW, ROW.astype(np.float32), False),
        (ROW, ROW.tolist(), False),
        (OBJECTS, np.array([1.0, "b"], object), False),
        ({"a": [1, (ROW,)]}, {"a": [1, (ROW.copy(),)]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (np.nan, np.nan, True),
        (1.0, 1.0 + 1e-9, False),
        (None, {}, False),
    ],
)
def test_identical_means_equal_bit_by_bit(a, b, expected):
    assert identical(a, b) == expected


def test_the_first_difference_has_the_path_of_the_element():
    a = {"position": ROW, "time": (1, 2)}
    b = {"position": np.where(ROW == 4, 9, ROW), "time": (1, 3)}
    assert first_difference(a, b) == ("position[4]", 4.0, 9.0)
    assert first_difference(a, {"position": ROW + 1e-9, "time": (1, 2)}) is None


class Node:
    def __init__(self, **parts):
        self.__dict__ |= parts


def test_arrays_are_found_in_containers_and_attributes_with_cycles():
    node = Node(goal=ROW, child=Node(parts=[{"a": ROW}]))
    node.child.parent = node
    assert [name for name, _ in arrays_in(node)] == ["goal", "child/parts/0/a"]


def test_only_writeable_arrays_share_memory():
    base = np.zeros((4, 2))
    read_only = base.view()
    read_only.flags.writeable = False
    assert share_memory(base, base[1:])
    assert not share_memory(base[:, 0], base[:, 1])
    assert not share_memory(base, base.copy())
    assert not share_memory(base, read_only)
