"""NStepWindows: returns of windows are the same on tensors."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch

from her_wrappers.replay.n_step import NStepWindows
from her_wrappers.replay.torch_backend import TorchWindows


def test_returns_of_windows_are_the_same_on_tensors():
    rng = np.random.default_rng(0)
    steps_left = rng.integers(1, 9, 300)
    of_arrays, of_tensors = NStepWindows(steps_left, 5), TorchWindows(steps_left, 5, torch.device("cpu"))
    rows = of_arrays.width * 300
    steps = {
        "rewards": rng.normal(size=rows).astype(np.float32),
        "terminations": rng.random(rows) < 0.2,
        "truncations": rng.random(rows) < 0.2,
    }
    expected = of_arrays.returns(SimpleNamespace(**steps), 0.9)
    tensors = {name: torch.from_numpy(values) for name, values in steps.items()}
    for array, tensor in zip(expected, of_tensors.returns(SimpleNamespace(**tensors), 0.9), strict=True):
        np.testing.assert_allclose(array, tensor.numpy(), rtol=1e-6, atol=1e-6)
        assert str(tensor.dtype) == f"torch.{array.dtype}"
