"""Lengths of n-step windows, computed from the discounts of a batch."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers.replay.n_step import window_lengths


@pytest.mark.parametrize("gamma", [0.1, 0.9, 0.99, 0.999])
def test_window_lengths_are_read_from_discounts(gamma):
    lengths = np.arange(1, 200)
    lengths = lengths[np.float32(gamma) ** lengths > 1e-30]  # smaller ones have few bits as float32
    discounts = np.float32(np.power(gamma, lengths))
    assert window_lengths(discounts, gamma).tolist() == lengths.tolist()
    assert window_lengths(np.zeros(3, np.float32), gamma).tolist() == [1, 1, 1]


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_window_lengths_are_1_where_discounts_do_not_depend_on_them(gamma):
    assert window_lengths(np.float32([gamma, 0]), gamma).tolist() == [1, 1]
