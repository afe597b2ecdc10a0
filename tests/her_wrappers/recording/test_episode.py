"""Episode: validation of the arrays."""

from __future__ import annotations

import re

import numpy as np
import pytest

from her_wrappers import Episode

PARTS = {"observations": np.zeros((3, 1)), "actions": np.zeros(2), "rewards": np.zeros(2)}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rewards", np.zeros(0), "rewards must have shape (T,) with T >= 1, got (0,)"),
        ("rewards", np.zeros((2, 1)), "rewards must have shape (T,)"),
        ("rewards", np.array(["1", "2"]), "rewards must hold numbers, got dtype <U1"),
        ("actions", np.zeros(3), "actions must have 2 rows, got shape (3,)"),
        ("observations", {"a": np.zeros(2)}, "observations/a must have 3 rows, got shape (2,)"),
        ("infos", {"a": np.zeros(())}, "infos/a must have 2 rows, got shape ()"),
    ],
)
def test_lengths_that_do_not_fit_are_errors(name, value, message):
    Episode(**PARTS, terminated=True, truncated=False)
    with pytest.raises(ValueError, match=re.escape(message)):
        Episode(**PARTS | {name: value}, terminated=True, truncated=False)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rewards", [0.0, 0.0], "rewards must be a NumPy array, got list"),
        ("observations", {"a": ([0, 0, 0],)}, "observations/a/0 must be a NumPy array"),
        ("infos", {"a": {"b": np.zeros(2)}}, "infos/a must be a NumPy array, got dict"),
        ("infos", {3: np.zeros(2)}, "infos must have keys that are strings, got 3"),
        ("infos", None, "infos must be a dict of arrays"),
        ("reset_info", {"a": None}, "reset_info/a must be a NumPy array"),
    ],
)
def test_values_that_are_not_arrays_are_errors(name, value, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        Episode(**PARTS | {name: value}, terminated=True, truncated=False)


@pytest.mark.parametrize("flag", ["no", 1, np.array([True, False]), None])
def test_flags_that_are_not_bools_are_errors(flag):
    with pytest.raises(TypeError, match="truncated must be a bool, got"):
        Episode(np.zeros((3, 1)), np.zeros(2), np.zeros(2), terminated=False, truncated=flag)
