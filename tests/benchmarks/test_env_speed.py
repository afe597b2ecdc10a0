"""The speed benchmark runs, and its claims are about things that it measures."""

from __future__ import annotations

import numpy as np
from rich.console import Console

from benchmarks import env_speed


def test_every_claim_is_measured_and_shown():
    contenders = env_speed.contenders()
    speeds = env_speed.measure(contenders, turns=2, seconds=0.0)
    assert all(np.isfinite(values).all() and (values > 0).all() for values in speeds.values())
    console = Console(width=200, record=True, quiet=True)
    console.print(env_speed.speed_table(contenders, speeds))
    console.print(env_speed.claim_table(speeds))
    assert len(env_speed.claim_table(speeds).rows) == len(env_speed.CLAIMS)
    assert len(env_speed.speed_table(contenders, speeds).rows) == len(speeds) == len(contenders)


def test_a_claim_that_does_not_hold_is_marked():
    claim = env_speed.CLAIMS[0]
    speeds = {name: np.ones(3) for each in env_speed.CLAIMS for name in (each.ours, each.theirs)}
    assert "NOT KEPT" in next(env_speed.claim_table(speeds).columns[-1].cells)
    speeds[claim.ours] = np.full(3, claim.least)
    assert next(env_speed.claim_table(speeds).columns[-1].cells) == "kept"
