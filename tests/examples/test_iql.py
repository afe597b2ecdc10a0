"""Implicit Q-learning: small enough to be checked by hand."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from examples.agents.iql import IQL
from her_envs import BitFlipping, PointReach
from her_wrappers import HindsightReplayBuffer

TASK = PointReach()
ROWS = 32
QUICK = {"hidden": 32, "tau": 0.2, "learning_rate": 1e-2, "seed": 0}


@pytest.fixture(autouse=True, name="one_thread")
def use_one_thread():
    """More threads only wait for each other on networks so small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def rows(*, action, reward, terminated):
    """The same step many times, or two kinds of steps where two actions and rewards are given."""
    buffer = HindsightReplayBuffer(
        TASK.observation_space, TASK.action_space, n_sampled_goal=0, gamma=0.5, seed=0
    )
    here = {key: np.float32([0.5, 0.5]) for key in TASK.observation_space}
    for each, paid in zip(action, reward, strict=True):
        buffer.add(here, np.float32(each), paid, here, terminated, not terminated)
    return buffer.sample(ROWS)


def value(agent, batch):
    return agent._value(agent._inputs(batch.to_torch().observations)).mean().item()


@pytest.mark.parametrize(("terminated", "expected"), [(True, -1.0), (False, -2.0)])
def test_values_go_where_the_bellman_equation_says(terminated, expected):
    agent = IQL(TASK.observation_space, TASK.action_space, **QUICK)
    batch = rows(action=[[1, 0]], reward=[-1.0], terminated=terminated)
    for _ in range(120):
        agent.update(batch, batch)
    assert value(agent, batch) == pytest.approx(expected, abs=0.1)


def test_values_are_those_of_the_better_actions_and_the_policy_takes_them():
    """A mean would be -5, and the action between the two."""
    agent = IQL(
        TASK.observation_space, TASK.action_space, expectile=0.95, tau=0.2, learning_rate=3e-3, seed=0
    )
    batch = rows(action=[[0.8, 0.0], [-0.8, 0.0]], reward=[0.0, -10.0], terminated=True)
    for _ in range(150):
        agent.update(batch, batch)
    assert value(agent, batch) > -2.5
    assert agent.act({"observation": np.float32([0.5, 0.5]), "desired_goal": np.float32([0.5, 0.5])})[0] > 0.5


def test_seeds_fix_the_weights_and_leave_torch_alone():
    state = torch.random.get_rng_state()
    first, second = (IQL(TASK.observation_space, TASK.action_space, seed=4) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first._policy[0].weight, second._policy[0].weight)


@pytest.mark.parametrize("space", [BitFlipping().action_space, gym.spaces.Box(-1, 1, (2, 2))])
def test_actions_that_are_no_vectors_are_refused(space):
    with pytest.raises(TypeError, match="IQL needs a Box of vectors as actions, got"):
        IQL(TASK.observation_space, space)
