"""DQN in cases that can be computed by hand."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
import torch

from her_agents.algorithms.dqn import DQN
from tests.support.transitions import BITS, bit_transition


def value(agent, bits, action):
    observation = {key: np.int8([bits]) for key in ("observation", "achieved_goal")}
    tensors, _ = agent.inputs.as_batch(observation | {"desired_goal": np.int8([[1, 1]])})
    return agent.network(agent.inputs(tensors))[0, action].item()


@pytest.mark.parametrize(("terminated", "expected"), [(True, 0.0), (False, -2.0)])
def test_values_converge_to_the_solution_of_the_bellman_equation(terminated, expected):
    """The target of a step that does not terminate is clipped at -2 = -1 / (1 - gamma)."""
    agent = DQN(BITS.observation_space, BITS.action_space, gamma=0.5, seed=0)
    with torch.no_grad():
        agent.target.layers[2].bias.fill_(-100)  # so low that targets are clipped
    losses = [
        agent.update(bit_transition(terminated=terminated))["loss"] for _ in range(260 if terminated else 60)
    ]
    assert losses[-1] < losses[0]
    assert value(agent, [1, 0], 1) == pytest.approx(expected, abs=0.5)


def test_acts_greedily_and_explores_with_epsilon():
    agent = DQN(BITS.observation_space, BITS.action_space, epsilon=1.0, seed=0)
    observation = {"observation": np.int8([1, 0]), "desired_goal": np.int8([1, 1])}
    best = int(np.argmax([value(agent, [1, 0], action) for action in range(2)]))
    assert {agent.act(observation) for _ in range(20)} == {best}
    assert {agent.act(observation, explore=True) for _ in range(50)} == {0, 1}


def test_first_action_can_be_any_number():
    agent = DQN(BITS.observation_space, gym.spaces.Discrete(2, start=5), epsilon=1.0)
    observation = {"observation": np.int8([1, 0]), "desired_goal": np.int8([1, 1])}
    assert {agent.act(observation, explore=True) for _ in range(50)} == {5, 6}
    batch = bit_transition(terminated=True)
    agent.update(dataclasses.replace(batch, actions=batch.actions + 5))
    agent.update(dataclasses.replace(batch, actions=(batch.actions + 5).astype(np.uint8)))
