"""Implicit Q-learning in cases that can be computed by hand."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
import torch

from her_agents.algorithms.iql import IQL
from her_envs import PointReach
from her_wrappers import HindsightReplayBuffer

TASK = PointReach()
ROWS = 32
QUICK = {"hidden": [32], "tau": 0.2, "learning_rate": 1e-2, "seed": 0}


def rows(*, action, reward, terminated):
    """Return a batch sampled from one transition for each action and reward, which are equal otherwise."""
    buffer = HindsightReplayBuffer(
        TASK.observation_space, TASK.action_space, n_sampled_goal=0, gamma=0.5, seed=0
    )
    here = {key: np.float32([0.5, 0.5]) for key in TASK.observation_space}
    for each, paid in zip(action, reward, strict=True):
        buffer.add(here, np.float32(each), paid, here, terminated, not terminated)
    return buffer.sample(ROWS)


def value(agent, batch):
    with torch.no_grad():
        return agent.value(agent.inputs(batch.observations)).mean().item()


@pytest.mark.parametrize(("terminated", "expected"), [(True, -1.0), (False, -2.0)])
def test_values_converge_to_the_solution_of_the_bellman_equation(terminated, expected):
    agent = IQL(TASK.observation_space, TASK.action_space, **QUICK)
    batch = rows(action=[[1, 0]], reward=[-1.0], terminated=terminated)
    for _ in range(120):
        agent.update(batch, batch)
    assert value(agent, batch) == pytest.approx(expected, abs=0.1)


def test_values_and_policy_prefer_better_actions():
    """The batch has two actions with rewards of mean -5; neither action is the mean action."""
    agent = IQL(
        TASK.observation_space, TASK.action_space, expectile=0.95, tau=0.2, learning_rate=3e-3, seed=0
    )
    batch = rows(action=[[0.8, 0.0], [-0.8, 0.0]], reward=[0.0, -10.0], terminated=True)
    for _ in range(150):
        agent.update(batch, batch)
    assert value(agent, batch) > -2.5
    assert agent.act({"observation": np.float32([0.5, 0.5]), "desired_goal": np.float32([0.5, 0.5])})[0] > 0.5


def test_policy_imitates_actions_in_the_units_of_the_environment():
    """The recorded action 8 of a space [0, 10] is 0.6 in the network's range [-1, 1]."""
    space = gym.spaces.Box(0, 10, (2,))
    agent = IQL(TASK.observation_space, space, hidden=[32], learning_rate=1e-2, seed=0)
    batch = rows(action=[[8, 3]], reward=[-1.0], terminated=True)
    for _ in range(150):
        losses = agent.update(batch)
    assert {"critic_loss", "value_loss", "actor_loss", "q_mean"} == losses.keys()
    np.testing.assert_allclose(
        agent.act({key: np.float32([0.5, 0.5]) for key in TASK.observation_space}), [8, 3], atol=0.3
    )


def test_values_and_policy_can_use_different_batches():
    agent = IQL(TASK.observation_space, TASK.action_space, **QUICK)
    for_values = rows(action=[[0.9, 0.9]], reward=[-1.0], terminated=True)
    for_policy = rows(action=[[-0.5, 0.5]], reward=[-9.0], terminated=True)
    for _ in range(150):
        agent.update(for_values, for_policy)
    assert value(agent, for_values) == pytest.approx(-1, abs=0.1)
    here = {key: np.float32([0.5, 0.5]) for key in TASK.observation_space}
    np.testing.assert_allclose(agent.act(here), [-0.5, 0.5], atol=0.1)


def test_all_losses_use_weights():
    batch = rows(action=[[0.9, 0.9]], reward=[-1.0], terminated=True)
    lighter = dataclasses.replace(batch, weights=np.full(ROWS, 0.25, np.float32))
    losses = [
        IQL(TASK.observation_space, TASK.action_space, **QUICK).update(each) for each in (batch, lighter)
    ]
    for name in ("critic_loss", "value_loss", "actor_loss"):
        assert losses[1][name].item() == pytest.approx(losses[0][name].item() / 4)


def test_imitation_weights_are_at_most_100():
    """The weight exp(beta * advantage) is clipped at 100, however large the advantage is."""
    agent = IQL(TASK.observation_space, TASK.action_space, temperature=1e6, clip_targets=False, **QUICK)
    with torch.no_grad():
        for critic in agent.targets:
            critic.layers[-1].bias.fill_(50)
    batch = rows(action=[[0.9, 0.9]], reward=[-1.0], terminated=True)
    missed = ((agent.act(batch.observations) - batch.actions) ** 2).mean()
    agent.inputs.normalizer.update = lambda rows: None  # so that the input statistics do not change
    assert agent.update(batch)["actor_loss"].item() == pytest.approx(100 * missed, rel=1e-4)
