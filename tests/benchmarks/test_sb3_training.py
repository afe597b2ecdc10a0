"""The benchmark of training runs, and its claims are about what it measures."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

from benchmarks.sb3_training import OURS, SB3, Result, claims, measure, time_grid


def test_both_are_measured_with_full_buffers_and_shown():
    result = measure(100, turns=2, steps=3)
    for name in (OURS, SB3):
        assert result.steps[name].shape == (2,)
        assert ((result.share(name) > 0) & (result.share(name) < 1)).all()
    assert len(time_grid([result, result]).rows) == 4


@pytest.mark.parametrize(("factor", "verdicts"), [(1, ["MISSED"] * 2), (20, ["met"] * 2)])
def test_a_claim_is_kept_where_ours_is_so_much_faster(factor, verdicts):
    steps = {OURS: np.array([99.0]), SB3: np.array([98.0 * factor])}
    replays = {OURS: np.array([1.0]), SB3: np.array([5.0 * factor**2])}
    result = Result(1, steps, replays)
    assert [claim.verdict for claim in claims(result, result)] == verdicts
