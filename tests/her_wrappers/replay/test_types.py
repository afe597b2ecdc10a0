"""Types that type checkers and editors see; mypy checks this file, and pytest runs it."""

from typing import assert_type, get_args

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is missing: the extra torch")

import torch

import her_envs  # noqa: F401 - registers the environments
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer
from her_wrappers.replay.goal_selection import STRATEGIES, StrategyName


def test_a_batch_has_arrays_and_to_torch_returns_tensors() -> None:
    env = gym.make("her_envs/PointReach-v0", max_episode_steps=5)
    buffer = HindsightReplayBuffer.for_env(env, goal_selection_strategy="episode", termination="never")
    recorder = EpisodeRecorder(env, buffer.add_episode)
    recorder.reset(seed=0)
    for _ in range(5):
        recorder.step(env.action_space.sample())
    batch = buffer.sample(8)
    assert_type(batch.rewards, np.ndarray)
    assert isinstance(batch.rewards, np.ndarray)
    tensors = batch.to_torch()
    assert_type(tensors.rewards, torch.Tensor)
    assert isinstance(tensors.rewards, torch.Tensor)


def test_the_type_of_names_has_all_strategies() -> None:
    assert set(get_args(StrategyName)) == set(STRATEGIES)
