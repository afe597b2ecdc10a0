"""Trees: values that fit a space are accepted, casts that lose information are errors; copies."""

import re

import numpy as np
import pytest

from her_wrappers.data.trees import as_leaf, copy_tree

LOSSLESS = [
    (3, np.float32), (True, np.int8), (2.0, np.int64), (0.5, np.float16), (np.float32(0.1), np.float64),
]  # fmt: skip
LOSSY = [
    (0.1, np.float32), (0.5, np.int64), (300, np.int8), (-1, np.uint8), (2**53 + 1, np.float64),
    (np.nan, np.int64), (1e300, np.float32), (np.inf, np.int64),
]  # fmt: skip


@pytest.mark.parametrize(("value", "dtype"), LOSSLESS)
def test_casts_that_keep_all_values_are_made(value, dtype):
    assert as_leaf("x", value, (), np.dtype(dtype)) == value


@pytest.mark.parametrize(("value", "dtype"), LOSSY)
def test_casts_that_change_a_value_are_an_error(value, dtype):
    with pytest.raises(ValueError, match=re.escape(f"x must have dtype {np.dtype(dtype)}, got")):
        as_leaf("x", value, (), np.dtype(dtype))


def test_rounding_is_for_floats_and_keeps_them_finite():
    assert as_leaf("x", 0.1, (), np.dtype(np.float32), rounding=True) == np.float32(0.1)
    for value, dtype in ((300, np.int8), (0.5, np.int64), (1e300, np.float32)):
        with pytest.raises(ValueError, match=f"which {np.dtype(dtype)} cannot represent"):
            as_leaf("x", value, (), np.dtype(dtype), rounding=True)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1], [1, 2]], "x must be an array of shape (2,), got list: "),
        ([1, 2, 3], "x must have shape (2,), got (3,)"),
        (["a", "b"], "x must hold numbers of dtype float32, got dtype <U1"),
        ([None, None], "x must hold numbers of dtype float32, got dtype object"),
    ],
)
def test_a_value_that_is_not_such_an_array_is_an_error(value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        as_leaf("x", value, (2,), np.dtype(np.float32))


# --- copies ---------------------------------------------------------------------------------------

ROW = np.arange(3.0)


def test_a_copy_shares_no_memory_with_the_original():
    copied = copy_tree({"a": ROW, "b": (ROW[1:], [ROW.copy()]), "c": {"d": ROW}})
    assert not np.shares_memory(copied["a"], copied["c"]["d"]), "keys of one array get an array each"
    parts = [copied["a"], *copied["b"][:1], *copied["b"][1], copied["c"]["d"]]
    assert [part.tolist() for part in parts] == [[0, 1, 2], [1, 2], [0, 1, 2], [0, 1, 2]]
    assert not any(np.shares_memory(part, ROW) for part in parts)


def test_arrays_of_objects_and_objects_are_copied_deeply():
    inner = [1]
    boxed = np.array([None], dtype=object)
    boxed[0] = inner
    copied = copy_tree({"array": boxed, "set": {1, 2}, "none": None, "number": np.float32(2)})
    inner.append(2)
    assert copied["array"][0] == [1]
    assert (copied["set"], copied["none"], copied["number"]) == ({1, 2}, None, 2)
