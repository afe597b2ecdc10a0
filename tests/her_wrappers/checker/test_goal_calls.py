"""Relabeled pairs of goals include successes and failures near the success threshold."""

import itertools
from functools import partial

import numpy as np
import pytest

from her_wrappers.checker.goal_calls import CallResult, call_function, relabeled_pairs, threshold
from her_wrappers.checker.rollout import Budget, roll_out
from tests.support.specimens.reach import DenseReach, Reach


def test_a_result_differs_from_an_error_and_from_another_error():
    errors = [CallResult(None, ValueError(text)) for text in ("full", "empty")]
    results = [CallResult(1.0), CallResult(""), *errors]
    for a, b in itertools.product(results, repeat=2):
        assert a.agrees_with(b) == (a is b)


def calls(env):
    return partial(call_function, env.compute_reward)


@pytest.mark.parametrize("radius", [0.01, 0.25, 0.9])
def test_the_threshold_is_found_by_bisection(radius):
    env = Reach()
    env.radius = radius
    near, far = np.zeros(2), np.array([1.0, 0.0])
    assert threshold(near, far, {}, calls(env)) == pytest.approx(radius, abs=1e-5)
    assert threshold(near, near, {}, calls(env)) is None
    assert threshold(near, far, {}, calls(DenseReach())) is None


def test_pairs_contain_successes_failures_and_both_sides_of_the_threshold():
    env = Reach()
    pairs = relabeled_pairs(roll_out(env, Budget(100)).steps, calls(env), np.random.default_rng(0))
    distances = [np.linalg.norm(pair.achieved - pair.desired) for pair in pairs]
    assert min(distances) == distances[0] == 0, "the smallest batch begins with a success"
    assert max(distances) > 0.3
    assert any(0.99 * 0.25 < distance < 0.25 for distance in distances)
    assert any(0.25 <= distance < 1.01 * 0.25 for distance in distances)
