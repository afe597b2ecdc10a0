"""Rollout: values that an environment returns are unpacked, or rejected by their kind."""

from __future__ import annotations

import pytest

from her_wrappers.checker.rollout import as_tuple


@pytest.mark.parametrize(
    ("returned", "got"), [((1, 2, 3), "3 values"), ([1, 2], "list"), (None, "NoneType"), ("ab", "str")]
)
def test_what_is_no_tuple_of_so_many_values_is_refused_by_what_it_is(returned, got):
    with pytest.raises(TypeError, match=f"^expected 2 values, got {got}$"):
        as_tuple(returned, 2)


def test_a_tuple_of_so_many_values_is_taken_as_it_is():
    returned = (1, {})
    assert as_tuple(returned, 2) is returned
