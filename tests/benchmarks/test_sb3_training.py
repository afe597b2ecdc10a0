"""The benchmark of training with Stable-Baselines3: it measures both buffers, and judges its requirements."""

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

from benchmarks.sb3_training import OURS, SB3, Result, measure, requirements, time_grid


def test_measures_both_buffers():
    result = measure(100, turns=2, steps=3)
    for name in (OURS, SB3):
        assert result.steps[name].shape == (2,)
        assert ((result.share(name) > 0) & (result.share(name) < 1)).all()
    assert len(time_grid([result, result]).rows) == 4


@pytest.mark.parametrize(("factor", "is_met"), [(1, False), (20, True)])
def test_requirements_are_judged_by_the_measured_times(factor, is_met):
    steps = {OURS: np.array([99.0]), SB3: np.array([98.0 * factor])}
    replays = {OURS: np.array([1.0]), SB3: np.array([5.0 * factor**2])}
    result = Result(1, steps, replays)
    assert [requirement.is_met for requirement in requirements(result, result)] == [is_met] * 2
