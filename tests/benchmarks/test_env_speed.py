"""The speed benchmark runs, and its claims are about things that it measures."""

from __future__ import annotations

import numpy as np

from benchmarks import env_speed
from benchmarks.timing import Pace


def test_every_contender_is_measured_and_every_claim_is_about_two_of_them():
    contenders = env_speed.contenders()
    speeds = env_speed.speeds_of(contenders, Pace(turns=2, seconds=0.0))
    assert all(np.isfinite(values).all() and (values > 0).all() for values in speeds.values())
    assert len(env_speed.claims(speeds)) == len(env_speed.RATIOS)
    assert len(env_speed.speed_grid(contenders, speeds).rows) == len(speeds) == len(contenders)


def test_a_claim_is_met_where_ours_is_so_many_times_as_fast():
    ours, _, promised, _ = env_speed.RATIOS[0]
    speeds = {name: np.ones(3) for ratio in env_speed.RATIOS for name in ratio[:2]}
    assert env_speed.claims(speeds)[0].verdict == "MISSED"
    speeds[ours] = np.full(3, promised)
    assert env_speed.claims(speeds)[0].verdict == "met"
