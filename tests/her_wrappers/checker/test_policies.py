"""Policies: steering reaches goals that random actions do not."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from her_wrappers.checker.policies import (
    MAX_GOAL_SIZE,
    _steer_box,
    random_policy,
    repeating_policy,
    steering_policy,
)
from her_wrappers.checker.rollout import RolloutCollector


def run(env, policy, steps=1000, collector=None):
    collector = collector or RolloutCollector(
        env, seed=0, reset_options=(), episode_cap=50, max_seconds=None, on_step=lambda: None
    )
    before = len(collector.rollout.steps)
    collector.run(policy, steps)
    return collector, sum(step.info["is_success"] for step in collector.rollout.steps[before:])


@pytest.mark.parametrize("env_id", ["her_envs/PointReach-v0", "her_envs/BitFlipping-v0"])
def test_steering_reaches_more_goals_than_random_actions(env_id):
    env = gym.make(env_id)
    collector, random_successes = run(env, random_policy(env.action_space, 0))
    seek = steering_policy(collector.rollout, env.action_space, np.random.default_rng(0))
    _, steered_successes = run(env, seek, collector=collector)
    assert steered_successes > 20 + 5 * random_successes


@pytest.mark.parametrize(
    "env_id", ["her_envs/BitFlippingImage-v0", "her_envs/BitFlippingContinuous-v0", "her_envs/PointReach-v0"]
)
def test_images_are_too_large_to_model(env_id):
    env = gym.make(env_id)
    collector, _ = run(env, random_policy(env.action_space, 0), steps=30)
    seek = steering_policy(collector.rollout, env.action_space, np.random.default_rng(0))
    assert (seek is None) == ("Image" in env_id)


@pytest.mark.parametrize(("size", "steers"), [(MAX_GOAL_SIZE, True), (MAX_GOAL_SIZE + 1, False)])
def test_goals_of_at_most_the_maximal_size_are_modelled(size, steers):
    goals = {"achieved_goal": np.zeros(size), "desired_goal": np.zeros(size)}
    rollout = SimpleNamespace(
        steps=[SimpleNamespace(before=goals, observation=goals, action=np.zeros(1))] * 3
    )
    seek = steering_policy(rollout, gym.spaces.Box(-1, 1, (1,)), np.random.default_rng(0))
    assert (seek is not None) == steers


def test_steering_compensates_a_drift():
    actions = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    steer = _steer_box(gym.spaces.Box(-1, 1, (2,)), actions, 0.2 * actions + [0.1, -0.05])
    np.testing.assert_allclose(steer(np.zeros(2), np.array([0.2, -0.15])), [0.5, -0.5], atol=1e-6)


def test_actions_are_repeated_and_the_space_keeps_its_generator():
    space = gym.spaces.Box(-1, 1, (2,), np.float32, seed=4)
    expected = gym.spaces.Box(-1, 1, (2,), np.float32, seed=4)
    policy = repeating_policy(space, np.random.default_rng(0))
    actions = [policy(None) for _ in range(200)]
    changes = sum(not np.array_equal(a, b) for a, b in itertools.pairwise(actions))
    assert 5 < changes < 60
    np.testing.assert_array_equal(space.sample(), expected.sample())
