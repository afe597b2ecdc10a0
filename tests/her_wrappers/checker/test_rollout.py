"""Policies of a run reach goals, and relabeled pairs of goals lie on both sides of the success threshold."""

import itertools
from functools import partial

import gymnasium as gym
import numpy as np
import pytest

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers.checker import rollout
from her_wrappers.checker.goal_calls import CallResult, call_function, relabeled_pairs, threshold
from her_wrappers.checker.rollout import Budget, random_policy, roll_out
from tests.support.specimens.reach import DenseReach, Reach


@pytest.mark.parametrize("env_id", ["her_envs/PointReach-v0", "her_envs/BitFlipping-v0"])
def test_steering_reaches_more_goals_than_random_actions(env_id):
    env = gym.make(env_id)
    fallback = random_policy(env.action_space, 0)
    random = roll_out(env, Budget(400, policy=fallback, episode_share=0.05))
    steer = rollout.steering_policy(random.steps, env.action_space, np.random.default_rng(0), fallback)
    steered = roll_out(env, Budget(400, policy=steer, episode_share=0.05))
    found, others = (sum(step.info["is_success"] for step in each.steps) for each in (steered, random))
    assert found > 10 + 3 * others


def test_steering_compensates_a_drift():
    actions = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    moves = 0.2 * actions + [0.1, -0.05]
    steer = rollout._fit_box(gym.spaces.Box(-1, 1, (2,)), actions, np.zeros((20, 2)), moves)
    np.testing.assert_allclose(steer(np.zeros(2), np.array([0.2, -0.15])), [0.5, -0.5], atol=1e-6)


def test_actions_are_repeated_and_the_space_keeps_its_generator():
    space, expected = (gym.spaces.Box(-1, 1, (2,), np.float32, seed=4) for _ in range(2))
    policy = rollout.repeating_policy(space, np.random.default_rng(0))
    actions = [policy(None) for _ in range(200)]
    assert 5 < sum(not np.array_equal(a, b) for a, b in itertools.pairwise(actions)) < 60
    np.testing.assert_array_equal(space.sample(), expected.sample())


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
