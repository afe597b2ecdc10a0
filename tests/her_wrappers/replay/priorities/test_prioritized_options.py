"""Options and arguments of priorities: accepted and invalid values."""

from __future__ import annotations

import re

import numpy as np
import pytest

from her_wrappers import Priority
from tests.support.counting import counting_buffer, counting_episode
from tests.support.equality import assert_same_batches
from tests.support.prioritized import prioritized_buffer


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -0.1}, "alpha of Priority must lie in [0, 1], got -0.1"),
        ({"alpha": 1.5}, "alpha of Priority must lie in [0, 1], got 1.5"),
        ({"alpha": np.nan}, "alpha of Priority must lie in [0, 1], got nan"),
        ({"alpha": "0.6"}, "alpha of Priority must lie in [0, 1], got '0.6'"),
        ({"beta": 2}, "beta of Priority must lie in [0, 1], got 2"),
        ({"beta": True}, "beta of Priority must lie in [0, 1], got True"),
        ({"eps": 0}, "eps of Priority must lie in [1e-30, 1], got 0"),
        ({"eps": np.inf}, "eps of Priority must lie in [1e-30, 1], got inf"),
    ],
)
def test_arguments_of_a_priority_out_of_range_are_an_error(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Priority(**options)


@pytest.mark.parametrize("value", [True, 0.6, {"alpha": 0.6}, Priority])
def test_an_argument_that_is_not_a_priority_is_an_error_with_the_fix(value):
    with pytest.raises(
        TypeError, match=r"^prioritized must be a Priority or None, got .*; pass Priority\(\)$"
    ):
        counting_buffer(prioritized=value)


@pytest.mark.parametrize("beta", [-0.1, 1.1, np.nan, "1", [0.5]])
def test_a_bad_beta_is_an_error_and_nothing_is_sampled(beta):
    buffer, twin = (prioritized_buffer([30]) for _ in range(2))
    with pytest.raises(ValueError, match=r"^beta must lie in \[0, 1\], got "):
        buffer.sample(8, beta=beta)
    assert_same_batches(buffer, twin)


def test_beta_and_update_priorities_without_priorities_are_errors():
    buffer, twin = (counting_buffer() for _ in range(2))
    for each in (buffer, twin):
        each.add_episode(counting_episode(0, 30))
    with pytest.raises(
        ValueError,
        match=r"beta is for a buffer with priorities, got 0.5; make it with prioritized=Priority\(\)",
    ):
        buffer.sample(8, beta=0.5)
    with pytest.raises(ValueError, match=r"has no priorities; make it with prioritized=Priority\(\)"):
        buffer.update_priorities([0], [1])
    assert_same_batches(buffer, twin)
