"""Episode: validation of the arrays."""

from __future__ import annotations

import re

import numpy as np
import pytest

from her_wrappers import Episode

ROWS = "rewards, actions and infos have one row per step, observations one more per episode"
BAD_EPISODES = [
    ({"rewards": np.zeros(0)}, "rewards must have shape (T,) with T >= 1, got (0,)"),
    ({"rewards": np.zeros((2, 1))}, "rewards must have shape (T,) with T >= 1, got (2, 1)"),
    ({"actions": np.zeros(3)}, f"actions must have 2 rows, got shape (3,); {ROWS}"),
    (
        {"observations": {"a": np.zeros(2)}},
        f"observations/a must have 3 rows, got shape (2,); {ROWS}",
    ),
    ({"rewards": np.array(["1", "2"])}, "rewards must hold numbers, got dtype <U1"),
    ({"infos": {"a": np.zeros(())}}, f"infos/a must have 2 rows, got shape (); {ROWS}"),
]


@pytest.mark.parametrize(("change", "message"), BAD_EPISODES)
def test_lengths_that_do_not_fit_are_errors(change, message):
    parts = {"observations": np.zeros((3, 1)), "actions": np.zeros(2), "rewards": np.zeros(2)}
    Episode(**parts, terminated=True, truncated=False)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Episode(**parts | change, terminated=True, truncated=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rewards": [0.0, 0.0]}, "rewards must be a NumPy array, got list; use np.asarray"),
        ({"rewards": None}, "rewards must be a NumPy array, got NoneType; use np.asarray"),
        ({"actions": [0, 0]}, "actions must be a NumPy array, got list; use np.asarray"),
        ({"observations": {"a": ([0, 0, 0],)}}, "observations/a/0 must be a NumPy array, got list"),
        ({"infos": {"a": [1, 2]}}, "infos/a must be a NumPy array, got list; use np.asarray"),
        ({"infos": {"a": {"b": np.zeros(2)}}}, "infos/a must be a NumPy array, got dict"),
        ({"infos": {3: np.zeros(2)}}, "infos must have keys that are strings, got 3"),
        ({"infos": None}, "infos must be a dict of arrays, got NoneType"),
        ({"reset_info": {"a": None}}, "reset_info/a must be a NumPy array, got NoneType"),
        ({"reset_info": {"a": {"b": np.zeros(2)}}}, "reset_info/a must be a NumPy array, got dict"),
        ({"reset_info": {3: np.zeros(2)}}, "reset_info must have keys that are strings, got 3"),
        ({"reset_info": [1]}, "reset_info must be a dict of arrays, got list"),
    ],
)
def test_values_that_are_not_arrays_are_errors(change, message):
    parts = {"observations": np.zeros((3, 1)), "actions": np.zeros(2), "rewards": np.zeros(2)}
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        Episode(**parts | change, terminated=True, truncated=False)


@pytest.mark.parametrize("flag", ["no", 1, np.array([True, False]), None])
def test_flags_that_are_not_bools_are_errors(flag):
    with pytest.raises(TypeError, match="truncated must be a bool, got"):
        Episode(np.zeros((3, 1)), np.zeros(2), np.zeros(2), terminated=False, truncated=flag)
