"""The page on writing a task: its example runs, and its environment passes the checks."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from tests.support.pages import names_after

PAGE = (Path(__file__).parents[2] / "docs" / "write_a_task.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def names():
    """The names that the code of the page defines when it runs from top to bottom."""
    yield names_after(PAGE)
    del gym.registry["Ring-v0"]


def test_the_task_has_at_most_forty_lines():
    lines = [line for line in BLOCKS[0].split("class Ring")[1].splitlines() if line.strip()]
    assert len(lines) <= 40


def test_the_example_has_the_described_results(names):
    assert names["picture"].shape == (512, 512, 3)
    assert names["rewards"].shape == (4096,)
    assert names["env"].unwrapped.task.tolerance == names["envs"].task.tolerance == np.float32(0.1)


def test_the_example_passes_the_checker_of_gymnasium(names):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make("Ring-v0", render_mode="rgb_array").unwrapped)


def test_the_example_computes_equal_rewards_for_arrays_and_tensors(names):
    env = names["TaskEnv"](names["Ring"](), reward_type="dense")
    goals = np.random.default_rng(0).random((2, 50, 1), dtype=np.float32)
    rewards = env.compute_reward(*goals, {})
    assert rewards.dtype == np.float32
    singles = [env.compute_reward(a, b, {}) for a, b in zip(*goals, strict=True)]
    np.testing.assert_array_equal(rewards, singles)
    np.testing.assert_array_equal(env.compute_reward(*torch.from_numpy(goals), {}).numpy(), rewards)
