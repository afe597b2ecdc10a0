"""Validation of arguments that several public functions share."""

from __future__ import annotations

import pytest

from her_wrappers.arguments import require_keys


@pytest.mark.parametrize("keys", [["a", "b"], ("a", "b"), iter(["a", "b"]), {"a": 1, "b": 2}.keys()])
def test_every_iterable_of_keys_keeps_them(keys):
    """A generator can be iterated over only once."""
    assert require_keys("info_keys", keys) == ("a", "b")
