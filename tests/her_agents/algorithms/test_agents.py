"""The agents: targets computed by hand, losses, exploration, saving and loading."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from her_agents.algorithms.base import BoxActions
from her_agents.algorithms.dqn import DQN
from her_agents.algorithms.iql import IQL
from her_agents.algorithms.sac import SAC
from her_agents.algorithms.td3 import DDPG, TD3
from her_agents.algorithms.tqc import TQC
from tests.support.transitions import (
    BITS,
    POINT,
    batch_for,
    bit_transition,
    make,
    point_transition,
    set_output,
)

CONTINUOUS = [DDPG, TD3, SAC, TQC]


def set_target_values(agent, *values):
    critics = agent.targets if isinstance(agent, SAC) else agent.targets["critics"]
    for critic, value in zip(critics, values, strict=True):
        set_output(critic, value)


def targets(agent, batch):
    return agent.target_values(batch, agent.inputs(batch.next_observations))


def target(agent, batch):
    values = targets(agent, batch)
    assert (values == values[0]).all(), "all rows are equal"
    return values[0].item()


@pytest.mark.parametrize(("clip_targets", "expected"), [(True, -2.0), (False, -1 + 0.5 * -7)])
def test_double_dqn_evaluates_the_action_of_the_online_network(clip_targets, expected):
    """The target network has its highest value, -3, at another action than the online network."""
    agent = make(DQN, gamma=0.5, clip_targets=clip_targets)
    set_output(agent.network, 4.0, 5.0)
    set_output(agent.target, -3.0, -7.0)
    assert target(agent, bit_transition(terminated=False)) == pytest.approx(expected)
    assert target(agent, bit_transition(terminated=True)) == 0


@pytest.mark.parametrize(
    ("gamma", "value", "clip_targets", "expected"),
    [
        (0.9, -3.0, True, -1 + 0.9 * -3),
        (0.5, -9.0, True, -2.0),  # clipped to -1 / (1 - gamma)
        (0.5, -9.0, False, -1 + 0.5 * -9),
        (0.9, 8.0, True, 0.0),  # clipped to 0, the value of a reached goal
        (0.9, 8.0, False, -1 + 0.9 * 8),
        (1.0, -90.0, True, -91.0),  # undiscounted returns have no lower bound
    ],
)
def test_ddpg_targets_follow_the_bellman_equation(gamma, value, clip_targets, expected):
    agent = make(DDPG, gamma=gamma, clip_targets=clip_targets)
    set_target_values(agent, value)
    assert target(agent, point_transition(gamma=gamma)) == pytest.approx(expected)
    assert target(agent, point_transition(terminated=True)) == -1


def test_td3_targets_use_the_lower_critic():
    agent = make(TD3, gamma=0.9)
    set_target_values(agent, -3.0, -4.0)
    assert target(agent, point_transition(gamma=0.9)) == pytest.approx(-1 + 0.9 * -4)


def test_sac_targets_use_the_lower_critic_plus_the_next_entropy():
    agent = make(SAC, gamma=0.9, temperature=0.5)
    set_target_values(agent, -4.0, -3.0)
    set_output(agent.actor, 0.0, 0.0, -3.0, -3.0)  # so narrow that the tanh is nearly linear
    batch = point_transition(gamma=0.9)
    entropy = 2 * (-3 + 0.5 * math.log(2 * math.pi * math.e))
    values = torch.cat([targets(agent, batch) for _ in range(50)])
    assert values.mean().item() == pytest.approx(-1 + 0.9 * (-4 + 0.5 * entropy), abs=0.03)


def test_td3_adds_bounded_noise_to_the_target_actions():
    """The critic returns the first action component, which shows the noise."""
    agent = make(TD3, gamma=0.9, hidden=(), target_noise=0.3, target_noise_clip=0.5, clip_targets=False)
    set_output(agent.targets["actor"][0], 0.2, 0.0)
    for critic in agent.targets["critics"]:
        set_output(critic, 0.0)
        with torch.no_grad():
            critic.layers[-1].weight[0, -2] = 1.0
    batch = point_transition(gamma=0.9)
    values = torch.cat([targets(agent, batch) for _ in range(100)])
    noise = (values + 1) / 0.9 - math.tanh(0.2)
    assert noise.abs().max().item() == pytest.approx(0.5, abs=1e-5)
    assert noise.mean().item() == pytest.approx(0, abs=0.03)
    inside = noise[noise.abs() < 0.49]
    assert len(inside) / len(noise) == pytest.approx(math.erf(0.49 / 0.3 / math.sqrt(2)), abs=0.02)
    set_output(agent.targets["actor"][0], 9.0, 0.0)
    assert ((targets(agent, batch) + 1) / 0.9).max().item() == pytest.approx(1), (
        "all actions are within the bounds"
    )


@pytest.mark.parametrize("interval", [1, 2])
def test_td3_updates_actor_in_every_second_update_and_targets_at_intervals_of_these(interval):
    agent = make(TD3, target_update_interval=interval)
    moved = []
    for _ in range(4):
        before = [
            agent.actor[0].layers[0].weight.clone(),
            agent.targets["critics"][0].layers[0].weight.clone(),
        ]
        outcome = agent.update(point_transition())
        after = [agent.actor[0].layers[0].weight, agent.targets["critics"][0].layers[0].weight]
        moved.append([not torch.equal(*pair) for pair in zip(before, after, strict=True)])
        assert ("actor_loss" in outcome) == moved[-1][0]
    assert moved == [[False, False], [True, interval == 1], [False, False], [True, True]]


def slow_and_fast(agent):
    if isinstance(agent, DQN):
        return agent.target, agent.network
    return agent.targets, agent._networks if isinstance(agent, DDPG | TD3) else agent.critics


@pytest.mark.parametrize("algorithm", CONTINUOUS)
def test_targets_depend_only_on_the_target_networks(algorithm):
    """SAC and TQC have no target actor; their targets use the online actor."""
    agent = make(algorithm, gamma=0.5, clip_targets=False)

    def values():
        agent.generator.manual_seed(0)
        return targets(agent, point_transition())

    before = values()
    slow, fast = slow_and_fast(agent)
    for parameter in fast.parameters():
        parameter.data += 1
    assert torch.equal(values(), before)
    for parameter in slow.parameters():
        parameter.data += 1
    assert not torch.equal(values(), before)


@pytest.mark.parametrize("algorithm", [DQN, *CONTINUOUS, IQL])
def test_updates_change_target_networks_and_input_statistics(algorithm):
    agent = make(algorithm, tau=0.25, **({"policy_delay": 1} if algorithm is TD3 else {}))
    slow, fast = slow_and_fast(agent)
    before = [parameter.clone() for parameter in slow.parameters()]
    agent.update(batch_for(algorithm))
    for was, now, ahead in zip(before, slow.parameters(), fast.parameters(), strict=True):
        torch.testing.assert_close(now, 0.75 * was + 0.25 * ahead)
    assert any(not torch.equal(was, now) for was, now in zip(before, slow.parameters(), strict=True))
    assert agent.inputs.normalizer.count == 64


@pytest.mark.parametrize("first", [-3.0, -4.0])
@pytest.mark.parametrize("algorithm", [TD3, SAC])
def test_actor_losses_are_those_of_the_papers(algorithm, first):
    """TD3 maximizes the first critic; SAC the lower critic plus the entropy."""
    options = {"action_l2": 0.0, "policy_delay": 1} if algorithm is TD3 else {}
    agent = make(algorithm, learning_rate=1e-12, **options)
    set_output(agent.critics[0], first)
    set_output(agent.critics[1], -7.0 - first)
    outcome = agent.update(point_transition())
    expected = 4 - 0.1 * outcome["entropy"] if algorithm is SAC else -first
    assert outcome["actor_loss"] == pytest.approx(expected)


def test_sac_clips_targets_from_below_only():
    agent = make(SAC, gamma=0.5, temperature=1e-9)
    for value, expected in ((-90.0, -2.0), (40.0, -1 + 0.5 * 40)):
        set_target_values(agent, value, value)
        values = targets(agent, point_transition())
        assert values.unique().tolist() == [pytest.approx(expected)]


def test_standard_deviations_of_sac_are_bounded():
    agent = make(SAC)
    seen = agent.inputs(agent.inputs.as_batch(point_transition().observations)[0])
    entropies = []
    for bounds in ((2.0, -5.0), (60.0, -60.0)):
        set_output(agent.actor, 0.0, 0.0, *bounds)
        agent.generator.manual_seed(0)
        entropies.append(agent.sample(seen)[1])
    assert torch.equal(*entropies)


@pytest.mark.parametrize(("target_entropy", "falls"), [(-50.0, True), (50.0, False)])
def test_sac_lowers_the_temperature_if_the_entropy_is_above_its_target(target_entropy, falls):
    agent = make(SAC, target_entropy=target_entropy)
    first, *_, last = (agent.update(point_transition())["temperature"] for _ in range(5))
    assert (last < first) == falls


@pytest.mark.parametrize("algorithm", [SAC, TQC])
def test_a_constant_temperature_keeps_its_value(algorithm):
    agent = make(algorithm, temperature=0.3, learn_temperature=False)
    for _ in range(3):
        assert agent.update(point_transition())["temperature"] == pytest.approx(0.3)
    assert "temperature_optimizer" not in agent.state_dict()


def test_sac_computes_the_density_of_its_actions():
    agent = make(SAC)
    set_output(agent.actor, 0.3, -2.0, -0.5, 0.5)
    tensors, _ = agent.inputs.as_batch(point_transition().observations)
    actions, entropy = agent.sample(agent.inputs(tensors))
    normal = torch.distributions.Normal(torch.tensor([0.3, -2.0]), torch.tensor([-0.5, 0.5]).exp())
    squashed = torch.distributions.TransformedDistribution(normal, torch.distributions.TanhTransform())
    torch.testing.assert_close(
        -entropy, squashed.log_prob(actions.double()).sum(1).float(), rtol=1e-3, atol=1e-3
    )


def test_exploration_of_td3_is_gaussian_or_uniform():
    observations = {key: np.tile(rows, (300, 1)) for key, rows in point_transition().observations.items()}

    def explored(mean=0.0, **options):
        agent = make(TD3, **options)
        set_output(agent.actor[0], mean, mean)
        return agent.act(observations, explore=True)

    assert explored(epsilon=0.0, noise=0.1).std() == pytest.approx(0.1, rel=0.03)
    assert explored(epsilon=1.0).std() == pytest.approx(1 / 3**0.5, rel=0.03)
    assert (explored(epsilon=0.25, noise=0.0) != 0).mean() == pytest.approx(0.25, abs=0.02)
    assert np.abs(explored(9.0, epsilon=0.0, noise=5.0)).max() <= 1


@pytest.mark.parametrize("algorithm", [DDPG, TD3])
def test_penalty_moves_actions_towards_zero(algorithm):
    """With a constant critic, the actor's loss is only the penalty."""
    sizes = []
    for weight in (0.0, 10.0):
        agent = make(algorithm, action_l2=weight, learning_rate=0.01)
        set_output(agent.actor[0], 2.0, -2.0)
        for _ in range(60):
            agent.update(point_transition(terminated=True))
        action = agent.act({key: rows[0] for key, rows in point_transition().observations.items()})
        sizes.append(np.abs(action).max())
    assert sizes[1] < 0.5 < sizes[0]


@pytest.mark.parametrize("algorithm", [DQN, *CONTINUOUS])
def test_loss_uses_weights_and_td_errors_are_returned(algorithm):
    name = "loss" if algorithm is DQN else "critic_loss"
    batch = batch_for(algorithm)
    agents = [make(algorithm) for _ in range(2)]
    full = agents[0].update(batch)[name]
    half = agents[1].update(dataclasses.replace(batch, weights=np.full(64, 0.5, np.float32)))[name]
    assert half.item() == pytest.approx(full.item() / 2)
    np.testing.assert_allclose(*(agent.td_errors for agent in agents))
    assert agents[0].td_errors.shape == (64,)
    if algorithm in {DQN, DDPG}:
        assert np.square(agents[0].td_errors).mean() == pytest.approx(full.item(), rel=1e-5)


@pytest.mark.parametrize("algorithm", [DQN, *CONTINUOUS, IQL])
def test_acts_on_single_observations_and_on_batches(algorithm):
    agent = make(algorithm)
    observations = batch_for(algorithm).observations
    many = agent.act(observations)
    one = agent.act({key: rows[0] for key, rows in observations.items()})
    space = (BITS if algorithm is DQN else POINT).action_space
    assert len(many) == 64
    assert space.contains(one)
    np.testing.assert_allclose(many[0], one, atol=1e-6)


@pytest.mark.parametrize("algorithm", CONTINUOUS)
def test_actions_cover_the_action_space(algorithm):
    space = spaces.Box(np.float32([-3, 10]), np.float32([1, 12]))
    agent = algorithm(POINT.observation_space, space)
    stochastic = issubclass(algorithm, SAC)
    set_output(agent.actor if stochastic else agent.actor[0], *[9.0, -9.0] * (1 + stochastic))
    observation = {key: rows[0] for key, rows in point_transition().observations.items()}
    np.testing.assert_allclose(agent.act(observation), [1, 10], atol=1e-5)
    taken = torch.tensor([[-3.0, 12.0], [-1.0, 11.0]])
    assert agent.actions.from_env(taken).tolist() == [[-1, 1], [0, 0]]


@settings(max_examples=100)
@given(
    low=st.floats(-1e3, 1e3),
    width=st.floats(1e-2, 1e3),
    dtype=st.sampled_from([np.float32, np.float64]),
    action=st.sampled_from([-1.0, 0.3, 1.0]),
)
def test_rounding_keeps_actions_in_the_action_space(low, width, dtype, action):
    """Bounds, their sums and their differences may not be representable in float32."""
    space = spaces.Box(low, low + width, (2,), dtype)
    taken = BoxActions(space, "sac", torch.device("cpu")).to_env(torch.full((1, 2), action))[0].numpy()
    assert space.contains(taken)
    np.testing.assert_allclose(
        taken, low + (action + 1) * width / 2, rtol=1e-5, atol=1e-5 * (width + abs(low))
    )


def test_action_components_can_be_constant():
    actions = BoxActions(spaces.Box(np.float32([0, 1]), np.float32([1, 1])), "sac", torch.device("cpu"))
    assert actions.to_env(torch.tensor([[0.0, 0.7]])).tolist() == [[0.5, 1]]
    assert actions.from_env(torch.tensor([[0.5, 1.0]])).tolist() == [[0, -1]]


@pytest.mark.parametrize(
    ("algorithm", "space", "message"),
    [
        (DQN, POINT.action_space, "dqn needs a Discrete action space, got Box"),
        (DDPG, BITS.action_space, "ddpg needs a Box action space, got Discrete"),
        (IQL, BITS.action_space, "iql needs a Box action space, got Discrete"),
        (SAC, spaces.Box(-np.inf, np.inf, (2,)), "sac needs an action space with finite bounds, got Box"),
    ],
)
def test_unsupported_action_space_raises_an_error(algorithm, space, message):
    with pytest.raises(TypeError, match=message):
        algorithm(POINT.observation_space, space)


@pytest.mark.parametrize("algorithm", [DQN, SAC])
def test_seed_determines_the_weights_and_not_torchs_global_generator(algorithm):
    state = torch.random.get_rng_state()
    first, second = (make(algorithm, seed=4) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), state)
    for one, other in zip(
        slow_and_fast(first)[1].parameters(), slow_and_fast(second)[1].parameters(), strict=True
    ):
        assert torch.equal(one, other)


@pytest.mark.parametrize("algorithm", CONTINUOUS)
def test_integer_actions_are_rounded(algorithm):
    space = spaces.Box(-1, 2, (2,), np.int64)
    agent = algorithm(POINT.observation_space, space)
    observations = {key: np.zeros((500, *box.shape)) for key, box in POINT.observation_space.items()}
    actions = agent.act(observations, explore=True)
    assert actions.dtype == np.int64
    assert set(np.unique(actions)) == {-1, 0, 1, 2}
