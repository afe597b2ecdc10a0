"""Behavior cloning: agents imitate demonstrated actions that are better than their own."""

import copy
import dataclasses

import numpy as np
import pytest
import torch

from her_agents.algorithms.base import cloning_loss
from her_agents.algorithms.dqn import DQN
from her_agents.algorithms.sac import SAC
from her_agents.algorithms.td3 import DDPG, TD3
from her_agents.algorithms.tqc import TQC
from tests.support import transitions
from tests.support.transitions import batch_for, bit_transition, point_transition

CONTINUOUS = [DDPG, TD3, SAC, TQC]


def make(algorithm, **options):
    return transitions.make(
        algorithm, **options | ({"policy_delay": 1} if algorithm in {TD3, SAC, TQC} else {})
    )


def test_only_better_demonstrated_actions_are_imitated():
    imitate, is_better = torch.arange(64) < 2, torch.arange(64) % 2 == 0
    taken = torch.ones(64, 2)
    assert cloning_loss(imitate, taken, 0 * taken, is_better).item() == pytest.approx(1 / 64)
    assert cloning_loss(imitate, taken, -2 * taken, is_better).item() == pytest.approx(9 / 64)


@pytest.mark.parametrize("algorithm", CONTINUOUS)
def test_the_actor_imitates_demonstrated_actions_with_higher_values(algorithm):
    """The loss of the actor differs by the cloning loss of the rows whose action the critic prefers."""
    actions = np.random.default_rng(0).uniform(-1, 1, (64, 2)).astype(np.float32)
    batch, imitate = dataclasses.replace(point_transition(), actions=actions), np.arange(64) < 40
    plain, cloning = (make(algorithm, bc_weight=weight, learning_rate=1e-12) for weight in (0.0, 2.0))
    with torch.no_grad():
        inputs, _ = copy.deepcopy(cloning).inputs.of_batch(batch)
        proposed = torch.as_tensor(cloning.actor(inputs)[:, :2])
        proposed = proposed.tanh() if issubclass(algorithm, SAC) else proposed
        q_values = [cloning.critics(inputs, each) for each in (torch.as_tensor(actions), proposed)]
        if issubclass(algorithm, SAC):
            taken, own = map(cloning.q_values, q_values)
        else:
            taken, own = (each[0, 0] for each in q_values)
        loss = cloning_loss(torch.as_tensor(imitate), torch.as_tensor(actions), proposed, taken > own)
    first, second = (agent.update(batch, imitate)["actor_loss"] for agent in (cloning, plain))
    difference, expected = (first - second).item(), 2 * loss.item()
    assert 0 < (taken > own)[:40].float().mean() < 1
    tolerance = 0.3 if issubclass(algorithm, SAC) else 1e-4  # SAC compares with a sampled action
    assert difference == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("algorithm", [DQN, *CONTINUOUS])
def test_without_demonstrations_nothing_changes(algorithm):
    batch, losses = batch_for(algorithm), []
    for weight, imitate in ((0.0, None), (5.0, None), (5.0, np.zeros(64, bool))):
        agent = make(algorithm, bc_weight=weight)
        losses += [[agent.update(batch, imitate) for _ in range(3)]]
    assert losses[0] == losses[1] == losses[2]


def test_dqn_ranks_demonstrated_actions_above_others_by_a_margin():
    """Action 1 is demonstrated; without the margin loss, action 0 keeps the higher value."""
    best = {}
    for weight in (0.0, 10.0):
        agent = make(DQN, bc_weight=weight, learning_rate=1e-3)
        agent.network.layers[-1].bias.data.copy_(torch.tensor([0.5, -0.5]))
        for _ in range(100):
            agent.update(bit_transition(terminated=False), imitate=np.ones(64, bool))
        values = agent.network(agent.inputs(bit_transition(terminated=False).observations))[0]
        best[weight] = (values[1] - values[0]).item()
    assert best[10.0] > 0.7
    assert best[0.0] < best[10.0] - 0.3
