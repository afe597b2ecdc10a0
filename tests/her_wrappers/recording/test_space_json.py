"""Descriptions of spaces as JSON: a space that is written and read equals the original."""

import json

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from her_wrappers.recording.space_json import space_from_json, space_to_json

SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
DTYPES = st.sampled_from(["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])


@st.composite
def boxes(draw):
    """Return a Box with random bits as bounds, or equal bounds."""
    dtype, shape = np.dtype(draw(DTYPES)), draw(SHAPES)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    one, other = (
        np.frombuffer(rng.bytes(27 * dtype.itemsize), dtype)[: np.prod(shape, dtype=int)] for _ in "ab"
    )
    low, high = (
        np.nan_to_num(each.reshape(shape)) for each in (np.minimum(one, other), np.maximum(one, other))
    )
    if draw(st.booleans()) and low.size:
        low, high = np.full(shape, low.min(), dtype), np.full(shape, high.max(), dtype)
    if dtype.kind == "f" and draw(st.booleans()):
        high = np.full(shape, np.inf, dtype)
    if dtype.kind == "i":  # Gymnasium uses the largest integer for infinity
        high = np.minimum(high, np.iinfo(dtype).max - 1)
        low = np.minimum(low, high)
    return spaces.Box(low, high, shape, dtype.type)


LEAVES = st.one_of(
    boxes(),
    st.just(spaces.Box(0, 1, (2, 0))),
    st.builds(spaces.Discrete, st.integers(1, 2**40), start=st.integers(-(2**40), 2**40)),
    st.builds(spaces.MultiBinary, st.integers(1, 9) | st.lists(st.integers(1, 3), min_size=1, max_size=3)),
    st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 9), min_size=1, max_size=3)),
    st.just(spaces.MultiDiscrete([[1, 2], [3, 4]], dtype=np.uint8, start=[[0, 5], [1, 2]])),
)


def larger(part):
    return st.lists(part, max_size=3).map(spaces.Tuple) | st.dictionaries(st.text(), part, max_size=3).map(
        spaces.Dict
    )


SPACES = st.recursive(LEAVES, larger, max_leaves=5)


@given(SPACES)
@settings(max_examples=30)
def test_spaces_come_back_equal(space):
    described = space_to_json(space)
    back = space_from_json(json.loads(json.dumps(described, allow_nan=False)))
    assert back == space
    assert space_to_json(back) == described


@pytest.mark.parametrize(
    "space", [spaces.Text(5), spaces.Dict(a=spaces.Tuple([spaces.Box(0, 1, (2,), np.longdouble)]))]
)
def test_spaces_that_json_cannot_describe_are_errors(space):
    with pytest.raises(TypeError, match=r"cannot be stored as JSON|fixed shape"):
        space_to_json(space)


BOX = {"type": "Box", "dtype": "float32", "shape": [2], "low": 0, "high": 1}


@pytest.mark.parametrize(
    "described",
    [
        *({}, [], "Box", {"type": "Text"}),
        *({"type": "Dict", "spaces": [["a"]]}, {"type": "Tuple", "spaces": [None]}),
        *(BOX | {"shape": shape} for shape in ([-1], "2")),
        *(BOX | {"low": low} for low in (5, [1, 2, 3], [[1], 2], None)),
        *(BOX | {"dtype": "uint8", "high": high} for high in (300, "inf")),
        *(BOX | {"dtype": dtype} for dtype in ("object", "f4,(2", [["a", "f4"]])),
        *({"type": "Discrete", "dtype": "int64", "n": n, "start": 0} for n in (-1, 10**30)),
        {"type": "MultiDiscrete", "dtype": "int64", "nvec": ["a"], "start": [0]},
    ],
)
def test_json_that_does_not_describe_a_space_is_an_error(described):
    with pytest.raises(ValueError, match="does not describe a space"):
        space_from_json(described)
