"""Comparisons of values: exact, up to rounding, and of memory."""

from types import SimpleNamespace

import numpy as np
import pytest

from her_wrappers.checker.comparing import arrays_in, close, first_difference, identical, share_memory

ROW = np.arange(6.0)
OBJECTS = np.array([1.0, "a"], object)


@pytest.mark.parametrize(
    ("a", "b", "are_close", "are_identical"),
    [
        (1.0, 1.0 + 1e-7, True, False),
        (np.nan, np.nan, True, True),
        (1.0, 1.001, False, False),
        (1.0, np.inf, False, False),
        (np.ones(2), np.ones(3), False, False),
        ("a", "b", False, False),
        (OBJECTS, np.array([1.0, "b"], object), False, False),
        (ROW, ROW + 1e-12, True, False),
        (ROW, ROW.astype(np.float32), True, False),
        (ROW, ROW.tolist(), True, False),
    ],
)
def test_close_means_up_to_rounding_and_identical_bit_by_bit(a, b, are_close, are_identical):
    assert close(a, b) == close(np.asarray(a), np.asarray(b)) == are_close
    assert identical(a, b) == are_identical


def test_nested_values_are_compared_part_by_part():
    a = {"position": ROW, "time": (1, 2)}
    b = {"position": np.where(ROW == 4, 9, ROW), "time": (1, 3)}
    assert first_difference(a, b) == ("position[4]", 4.0, 9.0)
    assert first_difference(a, {"position": ROW + 1e-9, "time": (1, 2)}) is None
    assert identical(a, {"position": ROW.copy(), "time": (1, 2)})
    assert not identical(a, a | {"more": 1})
    assert not identical(None, {})


def test_arrays_are_found_in_containers_and_attributes_with_cycles():
    node = SimpleNamespace(goal=ROW, child=SimpleNamespace(parts=[{"a": ROW}]))
    node.child.parent = node
    assert [name for name, _ in arrays_in(node)] == ["goal", "child/parts/0/a"]


def test_only_writeable_arrays_share_memory():
    base = np.zeros((4, 2))
    read_only = base.view()
    read_only.flags.writeable = False
    assert share_memory(base, base[1:])
    assert not share_memory(base[:, 0], base[:, 1])
    assert not share_memory(base, read_only)
