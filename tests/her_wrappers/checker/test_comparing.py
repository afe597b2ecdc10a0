"""Comparisons of values: exact, and up to rounding."""

import numpy as np
import pytest

from her_wrappers.checker.comparing import close, first_difference, identical

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
