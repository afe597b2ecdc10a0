"""Internals, `sampling/windows.py`: the arithmetic of n-step windows on tensors."""

from __future__ import annotations

import numpy as np
import torch

from her_wrappers.replay.sampling.windows import discounted_sum, until_first


def test_the_arithmetic_of_windows_is_the_same_on_tensors():
    rng = np.random.default_rng(0)
    ends, within = rng.random((2, 5, 300)) < [[[0.2]], [[0.8]]]
    rewards, powers = rng.normal(size=(5, 300)).astype(np.float32), 0.9 ** np.arange(5)[:, None]
    counted = until_first(ends, within)
    tensors = [torch.from_numpy(array) for array in (ends, within, rewards, powers)]
    on_tensors = until_first(*tensors[:2])
    np.testing.assert_array_equal(counted, on_tensors)
    np.testing.assert_allclose(
        discounted_sum(rewards, counted, powers),
        discounted_sum(tensors[2], on_tensors, tensors[3]),
        rtol=1e-12,
        atol=1e-12,
    )
