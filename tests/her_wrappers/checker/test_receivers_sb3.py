"""GoalEnvChecker reports nothing for a correct environment in Stable-Baselines3."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers import GoalEnvChecker

sb3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")


def unwrapped(env):
    return env


STATISTICS = [sb3.common.monitor.Monitor, wrappers.RecordEpisodeStatistics]
"""Wrappers that add info["episode"]; they cannot be combined."""


@pytest.mark.parametrize(
    ("inner", "outer"),
    [(unwrapped, unwrapped), *((s, unwrapped) for s in STATISTICS), *((unwrapped, s) for s in STATISTICS)],
)
def test_wrappers_in_a_dummy_vec_env_give_no_finding(inner, outer):
    checker = GoalEnvChecker(inner(gym.make("her_envs/PointReach-v0")))
    env = sb3.common.vec_env.DummyVecEnv([lambda: outer(checker)])
    with warnings.catch_warnings(action="error"):
        env.reset()
        for _ in range(120):
            env.step(np.zeros((1, 2), np.float32))
    assert checker.report().findings == ()


@pytest.mark.parametrize("algorithm", ["SAC", "DDPG"])
@pytest.mark.parametrize("monitor", ["inside", "outside"])
def test_a_training_with_stable_baselines3_gives_no_finding(algorithm, monitor):
    env = gym.make("her_envs/PointReach-v0", max_steps=20)
    checker = GoalEnvChecker(sb3.common.monitor.Monitor(env) if monitor == "inside" else env)
    model = getattr(sb3, algorithm)(
        "MultiInputPolicy",
        checker if monitor == "inside" else sb3.common.monitor.Monitor(checker),
        replay_buffer_class=sb3.HerReplayBuffer,
        learning_starts=50,
        train_freq=8,
        batch_size=16,
        policy_kwargs={"net_arch": [16]},
        seed=0,
        device="cpu",
    )
    model.learn(300)
    report = checker.report()
    assert report.steps >= 300
    assert report.findings == ()
