"""The benchmark of training with Stable-Baselines3: it measures both buffers, and judges its requirements."""

import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

from benchmarks import sb3_training
from benchmarks.sb3_training import OURS, SB3, measure, time_grid


def test_measures_both_buffers(monkeypatch):
    monkeypatch.setattr(sb3_training, "HORIZON", 5)  # also the length of the warm-up
    result = measure(100, turns=2, steps=3)
    for name in (OURS, SB3):
        assert result.steps[name].shape == (2,)
        assert ((result.share(name) > 0) & (result.share(name) < 1)).all()
    assert len(time_grid([result, result]).rows) == 4
