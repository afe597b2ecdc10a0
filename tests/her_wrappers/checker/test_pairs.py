"""Relabeled pairs of goals have both rewards of a sparse task, and lie on both sides of its threshold."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers.checker.collect import Budget, collect
from her_wrappers.checker.pairs import threshold
from her_wrappers.checker.probe import Probe
from her_wrappers.checker.replicas import EnvReplicator
from tests.support.specimens.correct_goals import GridGoals
from tests.support.specimens.reach import DenseReach, Reach

NEAR, FAR = np.zeros(2), np.array([1.0, 0.0])


@pytest.mark.parametrize("radius", [0.01, 0.25, 0.9])
def test_the_threshold_is_found_by_bisection(radius):
    env = Reach()
    env.radius = radius
    assert threshold(NEAR, FAR, {}, Probe(env.compute_reward)) == pytest.approx(radius, abs=1e-5)


def test_dense_rewards_and_equal_goals_have_no_threshold():
    assert threshold(NEAR, FAR, {}, Probe(DenseReach().compute_reward)) is None
    assert threshold(NEAR, NEAR, {}, Probe(Reach().compute_reward)) is None


@pytest.mark.parametrize("seed", range(5))
def test_pairs_contain_successes_failures_and_both_sides_of_the_threshold(seed):
    evidence = collect(Reach(), EnvReplicator(None), Budget(100, seed=seed))
    distances = [np.linalg.norm(pair.achieved - pair.desired) for pair in evidence.pairs]
    assert {row.number for row in evidence.pair_results} == {0.0, -1.0}
    assert any(0.99 * 0.25 < distance < 0.25 for distance in distances)
    assert any(0.25 <= distance < 1.01 * 0.25 for distance in distances)
    first_two = [evidence.pair_results[i].number for i in range(2)]
    assert first_two[0] == 0.0, "the smallest batch begins with a success"


def test_integer_goals_keep_their_dtype():
    evidence = collect(GridGoals(), EnvReplicator(None), Budget(100))
    assert {pair.desired.dtype for pair in evidence.pairs} == {np.dtype(np.uint8)}
