"""TQC: its targets and its loss, compared with the equations of the paper."""

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch

from her_agents.algorithms.tqc import TQC
from tests.support import transitions
from tests.support.transitions import point_transition, set_output

make = partial(transitions.make, TQC)


def set_quantiles(critics, *values):
    """Make each critic return the same quantiles for every input."""
    for critic, quantiles in zip(critics, values, strict=True):
        set_output(critic, *quantiles)


def targets(agent, batch, temperature):
    with torch.no_grad():
        agent._temperature["log"].copy_(torch.tensor(temperature).log())
    return agent.target_values(batch, agent.inputs(batch.next_observations))


@pytest.mark.parametrize(
    ("dropped", "kept"), [(0, [-9, -5, -4, -3, -2, -1]), (1, [-9, -5, -4, -3]), (2, [-9, -5])]
)
def test_targets_leave_out_the_largest_quantiles_of_all_critics_together(dropped, kept):
    agent = make(n_quantiles=3, top_quantiles_to_drop_per_net=dropped, gamma=0.9, clip_targets=False)
    set_quantiles(agent.targets, [-1.0, -3.0, -2.0], [-5.0, -9.0, -4.0])
    values = targets(agent, point_transition(gamma=0.9), 0.0)
    expected = torch.tensor([-1 + 0.9 * quantile for quantile in kept])
    torch.testing.assert_close(values, expected[:, None].expand(-1, 64))


def test_targets_contain_the_weighted_entropy_of_the_next_action():
    agent = make(gamma=0.9, clip_targets=False)
    batch = point_transition(gamma=0.9)
    difference = []
    for temperature in (0.0, 1.0):
        agent.generator.manual_seed(0)
        difference.append(targets(agent, batch, temperature))
    agent.generator.manual_seed(0)
    _, entropy = agent.sample(agent.inputs(batch.next_observations))
    torch.testing.assert_close(difference[1] - difference[0], (0.9 * entropy).expand(46, -1))


def test_targets_are_clipped_at_the_lowest_return():
    agent = make(gamma=0.5)
    set_quantiles(agent.targets, *[[-90.0] * 25] * 2)
    assert (targets(agent, point_transition(), 0.0) == -2).all()


def test_loss_is_the_mean_quantile_huber_loss():
    rng = np.random.default_rng(0)
    agent = make(n_quantiles=4)
    values = rng.normal(size=(2, 4, 64)).astype(np.float32)
    target = rng.normal(scale=2, size=(6, 64)).astype(np.float32)
    weights = rng.random(64).astype(np.float32)
    batch = dataclasses.replace(point_transition(), weights=weights)
    terms = []
    for critic in values:
        for level, quantiles in zip((0.125, 0.375, 0.625, 0.875), critic, strict=True):
            for row in target:
                for weight, value, wanted in zip(weights, quantiles, row, strict=True):
                    error = wanted - value
                    huber = error**2 / 2 if abs(error) <= 1 else abs(error) - 0.5
                    terms.append(weight * abs(level - (error < 0)) * huber)
    loss = agent.critic_loss(batch, torch.from_numpy(values), torch.from_numpy(target))
    assert loss.item() == pytest.approx(np.mean(terms), rel=1e-4)
    errors = np.abs(values.mean(axis=1) - target.mean(axis=0)).mean(axis=0)
    np.testing.assert_allclose(agent.td_errors, errors, rtol=1e-4)
