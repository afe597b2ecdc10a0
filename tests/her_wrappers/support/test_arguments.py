"""Validation of arguments that several public functions share."""

import re

import numpy as np
import pytest

from her_wrappers.support.arguments import require_keys, require_number


@pytest.mark.parametrize("keys", [["a", "b"], ("a", "b"), iter(["a", "b"]), {"a": 1, "b": 2}.keys()])
def test_every_iterable_of_keys_keeps_them(keys):
    """A generator can be iterated over only once."""
    assert require_keys("info_keys", keys) == ("a", "b")


@pytest.mark.parametrize(
    ("interval", "valid", "invalid"),
    [
        ("(0, 1]", [1e-9, 1, np.float32(0.5)], [0, 1.1, float("nan"), True, "a", None]),
        ("[0, inf)", [0, 1e300], [-1e-9, float("inf")]),
    ],
)
def test_a_number_lies_in_its_interval(interval, valid, invalid):
    for value in valid:
        assert require_number("tau", value, interval) == value
    for value in invalid:
        with pytest.raises(ValueError, match=re.escape(f"tau must be a number in {interval}, got {value!r}")):
            require_number("tau", value, interval)
