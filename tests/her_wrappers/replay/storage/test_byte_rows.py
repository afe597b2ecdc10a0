"""Internals, `byte_rows.py`: rows as bytes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from her_wrappers.replay.byte_rows import as_bytes


@given(
    st.integers(1, 6),
    st.integers(0, 3),
    st.sampled_from([np.uint8, np.float32, np.float64]),
    st.data(),
)
def test_rows_are_the_same_when_all_their_bytes_are(rows, width, dtype, data):
    shape, size = (rows, width), rows * width * np.dtype(dtype).itemsize
    bits = [np.array(data.draw(st.lists(st.sampled_from([0, 1, 128]), min_size=size, max_size=size)))] * 2
    bits[1] = bits[1].copy()
    if size:
        bits[1][data.draw(st.integers(0, size - 1))] = data.draw(st.sampled_from([0, 255]))
    first, second = (part.astype(np.uint8).view(dtype).reshape(shape) for part in bits)
    expected = [a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True)]
    assert (as_bytes(first) == as_bytes(second)).tolist() == expected
    assert (as_bytes(first) != as_bytes(second)).tolist() == [not same for same in expected]
    gaps = np.repeat(second, 2, axis=0)[::2]
    assert (as_bytes(first) == as_bytes(gaps)).tolist() == expected
