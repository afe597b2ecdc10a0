"""The recording benchmark runs, and its claims are about what it measures."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import recording
from benchmarks.array_envs import VectorReplay
from benchmarks.timing import Pace
from her_wrappers import VectorEpisodeRecorder


def test_everything_is_measured_and_shown(monkeypatch):
    monkeypatch.setattr(recording, "NUM_ENVS", 8)
    contenders = [*recording.single_contenders(500), *recording.vector_contenders(500)]
    recording.fill(contenders, 500)
    costs = recording.cost_of(contenders, Pace(turns=2, seconds=0.0))
    assert list(costs) == [contender.name for contender in contenders]
    assert all(len(values) == 2 for values in costs.values())
    rows = recording.cost_grid(costs).rows
    assert len(rows) == len(contenders) + (recording.MINARI not in costs)
    assert len(recording.claims(costs)) == 3


@pytest.mark.parametrize(("cost", "verdict"), [(0.35, "met"), (0.5, "MISSED")])
def test_a_claim_that_does_not_hold_is_marked(cost, verdict):
    costs = {recording.OURS: np.full(3, cost), recording.SB3: np.ones(3)}
    costs |= {recording.vector_name(horizon): np.full(3, 100 * cost) for horizon in (50, 10)}
    assert recording.claims(costs)[0].verdict == verdict


def test_what_is_counted_is_what_is_recorded():
    for horizon in (10, 50):
        episodes = []
        env = VectorEpisodeRecorder(VectorReplay(4, horizon), episodes.append)
        recording.vector(env, horizon)(3)
        assert [len(episode) for episode in episodes] == [horizon] * 12
