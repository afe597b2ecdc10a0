"""Rules about spaces: messages for values that lie outside their space."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers.checker.rules.spaces import _leaf_types, _outside, _outside_array

BOX = spaces.Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize(
    ("space", "value", "got", "expected"),
    [
        (BOX, [0.0, 0.0], "[0.0, 0.0] of type list", "a float32 array"),
        (BOX, np.zeros(3, np.float32), "shape (3,)", "shape (2,)"),
        (BOX, np.zeros(2), "dtype float64", "dtype float32"),
        (spaces.MultiDiscrete([3, 3]), np.array([5, 0]), "[5, 0]", "an element of MultiDiscrete([3 3])"),
        (spaces.MultiBinary(2), np.array([2, 0], np.int8), "[2, 0]", "an element of MultiBinary(2)"),
    ],
)
def test_an_array_outside_its_space_is_reported_with_the_property_of_the_space(space, value, got, expected):
    [violation] = _outside_array(space, value)
    assert (violation.got, violation.expected) == (got, expected)


@pytest.mark.parametrize("space", [BOX, spaces.MultiDiscrete([3, 3]), spaces.MultiBinary(2)])
def test_an_element_of_its_space_is_not_reported(space):
    assert not list(_outside_array(space, space.sample()))


def test_a_number_outside_its_space_is_reported_with_its_path_and_without_an_adapter():
    space = spaces.Dict(goal=spaces.Discrete(3))
    [(path, violation)] = _outside(space, {"goal": 5}, ())
    assert path == ("goal",)
    assert (violation.got, violation.expected) == ("5 of type int", "an element of Discrete(3)")
    assert violation.adapter == ""


def test_a_value_that_is_not_a_dict_is_reported_for_a_dict_space():
    [(path, violation)] = _outside(spaces.Dict(goal=BOX), [1, 2], ())
    assert (path, violation.got, violation.expected) == ((), "[1, 2]", "a dict")


def test_nested_spaces_with_equal_shapes_and_dtypes_of_leaves_have_equal_leaf_types():
    wide, narrow = (spaces.Dict(hand=spaces.Box(-bound, bound, (2,))) for bound in (2, 1))
    long = spaces.Dict(hand=spaces.Box(-1, 1, (3,)))
    assert _leaf_types(wide) == _leaf_types(narrow) != _leaf_types(long)
