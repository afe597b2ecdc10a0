"""Rollout: tuples that an environment returns are validated."""

from __future__ import annotations

import pytest

from her_wrappers.checker.rollout import require_tuple


@pytest.mark.parametrize(
    ("returned", "got"), [((1, 2, 3), "3 values"), ([1, 2], "list"), (None, "NoneType"), ("ab", "str")]
)
def test_a_value_that_is_not_a_tuple_of_the_expected_length_raises(returned, got):
    with pytest.raises(TypeError, match=f"^expected 2 values, got {got}$"):
        require_tuple(returned, 2)


def test_a_tuple_of_the_expected_length_is_returned():
    returned = (1, {})
    assert require_tuple(returned, 2) is returned
