"""Very short runs in all tests of the studies."""

import pytest

from benchmarks.studies import bitflip, reach, runs, strategies
from tests.support.studies import POINT, TINY, tiny_bits


@pytest.fixture(autouse=True, name="tiny")
def use_tiny_settings(monkeypatch):
    """Make all runs very short."""
    monkeypatch.setattr(runs, "FINAL_EPISODES", 4)
    monkeypatch.setattr(bitflip, "QUICK", (2, 3))
    monkeypatch.setattr(bitflip, "settings", tiny_bits)
    monkeypatch.setattr(strategies, "SETTINGS", strategies.SETTINGS | TINY | POINT)
    monkeypatch.setattr(reach, "TASKS", {"PointReach": TINY, "PointMaze": TINY})
    monkeypatch.setattr(reach, "AGENTS", {"ddpg": {}, "td3": {}, "sac": {}})
    dense = {"env_kwargs": {"max_steps": 5, "reward_type": "dense"}, "clip_targets": False}
    sparse = {"env_kwargs": {"max_steps": 5}}
    monkeypatch.setattr(reach, "REWARDS", {"sparse": sparse, "dense": dense})
