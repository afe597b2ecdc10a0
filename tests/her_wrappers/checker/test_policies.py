"""Policies: steering reaches goals that random actions do not."""

import itertools

import gymnasium as gym
import numpy as np
import pytest

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers.checker.rollout import (
    Budget,
    _fit_box,
    random_policy,
    repeating_policy,
    roll_out,
    steering_policy,
)


@pytest.mark.parametrize("env_id", ["her_envs/PointReach-v0", "her_envs/BitFlipping-v0"])
def test_steering_reaches_more_goals_than_random_actions(env_id):
    env = gym.make(env_id)
    fallback = random_policy(env.action_space, 0)
    random = roll_out(env, Budget(400, policy=fallback, episode_share=0.05))
    steer = steering_policy(random.steps, env.action_space, np.random.default_rng(0), fallback)
    steered = roll_out(env, Budget(400, policy=steer, episode_share=0.05))
    found, others = (sum(step.info["is_success"] for step in each.steps) for each in (steered, random))
    assert found > 10 + 3 * others


def test_steering_compensates_a_drift():
    actions = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    moves = 0.2 * actions + [0.1, -0.05]
    steer = _fit_box(gym.spaces.Box(-1, 1, (2,)), actions, np.zeros((20, 2)), moves)
    np.testing.assert_allclose(steer(np.zeros(2), np.array([0.2, -0.15])), [0.5, -0.5], atol=1e-6)


def test_actions_are_repeated_and_the_space_keeps_its_generator():
    space, expected = (gym.spaces.Box(-1, 1, (2,), np.float32, seed=4) for _ in range(2))
    policy = repeating_policy(space, np.random.default_rng(0))
    actions = [policy(None) for _ in range(200)]
    assert 5 < sum(not np.array_equal(a, b) for a, b in itertools.pairwise(actions)) < 60
    np.testing.assert_array_equal(space.sample(), expected.sample())
