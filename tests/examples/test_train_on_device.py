"""The example on a device runs; slow: it learns to push."""

import pytest

from examples.train_on_device import main


def test_it_runs(monkeypatch):
    monkeypatch.setattr("examples.train_on_device.WARMUP", 1_000)
    assert main(steps=2_000, num_envs=64) <= 1


@pytest.mark.campaign
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_learns_to_push(seed):
    assert main(seed=seed) >= 0.95
