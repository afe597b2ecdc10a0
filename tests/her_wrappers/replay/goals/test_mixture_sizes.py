"""GoalMixture: the sizes of the components of a batch, without a buffer."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers import Geometric, Mixture
from her_wrappers.replay.goal_sampler import GoalMixture

pytestmark = pytest.mark.arrays_only("the tests use no buffer")

SHORT = np.float32(0.7)
"""A share of the type float32."""


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (("future", None, SHORT), ("future", None, float(SHORT))),
        (
            (Mixture({"future": SHORT, "original": 1 - SHORT}), None, None),
            (Mixture({"future": float(SHORT), "original": float(1 - SHORT)}), None, None),
        ),
    ],
    ids=["her_ratio", "Mixture"],
)
def test_a_float32_share_is_converted_to_float64(short, long):
    """Files store float64, so float32 shares would give other batches after loading."""
    for seed in range(100):
        few, many = (
            GoalMixture(*each).sample_components(1, 1_000_003, np.random.default_rng(seed)).sum()
            for each in (short, long)
        )
        assert few == many


def test_a_float32_gamma_is_converted_to_float64():
    t, length = np.zeros(10**6, np.int64), np.full(10**6, 1000)
    short, long = Geometric(np.float32(0.999)), Geometric(float(np.float32(0.999)))
    assert short == long
    few, many = (each(t, length, np.random.default_rng(0)) for each in (short, long))
    np.testing.assert_array_equal(few, many)


def test_a_mixture_does_not_change_with_the_dict_it_was_made_from():
    shares = {"future": 0.5, "final": 0.5}
    mixture = Mixture(shares)
    shares["future"] = 7
    assert mixture.shares == {"future": 0.5, "final": 0.5}
