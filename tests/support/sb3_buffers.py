"""Buffers for Stable-Baselines3, and small models with them."""

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
from stable_baselines3.common.vec_env import DummyVecEnv

import her_envs
from her_wrappers.integrations.sb3 import HerReplayBuffer
from tests.support.counting import ACTIONS, SPACE, compute_reward, counting_episode

gym.register_envs(her_envs)

BOTH = pytest.mark.parametrize("kind", [sb3.HerReplayBuffer, HerReplayBuffer], ids=["SB3", "ours"])


class Rewards(gym.Env):
    """An environment with the attributes that a buffer uses."""

    observation_space, action_space = SPACE, ACTIONS

    def compute_reward(self, achieved, desired, info):
        return compute_reward(achieved, desired, info)


def make_buffer(size=100, *, kind=HerReplayBuffer, n_envs=1, env=Rewards, **options):
    envs = DummyVecEnv([env] * n_envs)
    space, actions = envs.observation_space, envs.action_space
    return kind(size, space, actions, env=envs, device="cpu", n_envs=n_envs, **options)


def add(buffer, episodes, *, timeout=False, steps=None, info=None):
    """Add one counting episode per environment, all of one length; ``steps`` adds only their first steps."""
    length = len(episodes[0])
    rows = {key: np.stack([episode.observations[key] for episode in episodes], 1) for key in SPACE}
    for t in range(length if steps is None else steps):
        ended = t + 1 == length
        buffer.add(
            {key: values[t] for key, values in rows.items()},
            {key: values[t + 1] for key, values in rows.items()},
            np.stack([episode.actions[t] for episode in episodes]),
            np.array([episode.rewards[t] for episode in episodes]),
            np.full(len(episodes), ended),
            [{"TimeLimit.truncated": ended and timeout, "t": t, **(info or {})} for _ in episodes],
        )


def filled(*, timeout=False, info=None, **options):
    """Return a buffer with a counting episode of 5 steps."""
    buffer = make_buffer(**options)
    add(buffer, [counting_episode(0, 5)], timeout=timeout, info=info)
    return buffer


def model_of(algorithm, env, **options):
    """Return a small model with the `HerReplayBuffer` of her-toolkit."""
    settings = {
        "replay_buffer_class": HerReplayBuffer,
        "learning_starts": 20,
        "buffer_size": 1000,
        "batch_size": 16,
        "policy_kwargs": {"net_arch": [8]},
        "device": "cpu",
        "seed": 0,
    }
    return algorithm("MultiInputPolicy", env, **settings | options)


def one_success_kept(buffer, rows=2000):
    """Return the ``dones`` of the relabeled rows of a large batch whose new goal is achieved."""
    batch = buffer.sample(rows)
    relabeled = (batch.observations["desired_goal"] != 1).any(1)
    successes = relabeled & (batch.rewards[:, 0] == 0)
    assert successes.sum() > 100
    return batch.dones[successes]
