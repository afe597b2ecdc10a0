"""DQN and evaluate: small enough to be checked by hand."""

from __future__ import annotations

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
import torch

from examples.agents.dqn import DQN
from examples.evaluate import evaluate
from examples.quickstart import train
from her_envs import BitFlipping, PointReach, TaskEnv
from tests.examples.transitions import BITS, bit_transition


def value(agent, bits, action):
    observation = {key: np.int8([bits]) for key in ("observation", "achieved_goal")}
    tensors, _ = agent._inputs.as_batch(observation | {"desired_goal": np.int8([[1, 1]])})
    return agent._network(agent._inputs(tensors))[0, action].item()


@pytest.mark.parametrize(("terminated", "expected"), [(True, 0.0), (False, -2.0)])
def test_values_go_where_the_bellman_equation_says(terminated, expected):
    """Without an end the value of 11 is that of its best action, held at -2 by the clip 1 / (1 - 0.5)."""
    agent = DQN(BITS.observation_space, BITS.action_space, gamma=0.5, seed=0)
    with torch.no_grad():
        agent._target.layers[2].bias.fill_(-100)  # so low that only the clip can be the target
    losses = [
        agent.update(bit_transition(terminated=terminated))["loss"] for _ in range(260 if terminated else 60)
    ]
    assert losses[-1] < losses[0]
    assert value(agent, [1, 0], 1) == pytest.approx(expected, abs=0.5)


def test_greedy_actions_are_the_best_and_epsilon_explores():
    agent = DQN(BITS.observation_space, BITS.action_space, epsilon=1.0, seed=0)
    observation = {"observation": np.int8([1, 0]), "desired_goal": np.int8([1, 1])}
    best = int(np.argmax([value(agent, [1, 0], action) for action in range(2)]))
    assert {agent.act(observation) for _ in range(20)} == {best}
    assert {agent.act(observation, explore=True) for _ in range(50)} == {0, 1}


def test_seeds_fix_the_weights_and_leave_torch_alone():
    state = torch.random.get_rng_state()
    first, second = (DQN(BITS.observation_space, BITS.action_space, seed=4) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first._network.layers[0].weight, second._network.layers[0].weight)


def test_continuous_actions_are_refused():
    with pytest.raises(TypeError, match="dqn needs Discrete actions, got Box"):
        DQN(PointReach().observation_space, PointReach().action_space)


def test_actions_may_begin_anywhere():
    agent = DQN(BITS.observation_space, gym.spaces.Discrete(2, start=5), epsilon=1.0)
    observation = {"observation": np.int8([1, 0]), "desired_goal": np.int8([1, 1])}
    assert {agent.act(observation, explore=True) for _ in range(50)} == {5, 6}
    batch = bit_transition(terminated=True)
    agent.update(dataclasses.replace(batch, actions=batch.actions + 5))
    agent.update(dataclasses.replace(batch, actions=(batch.actions + 5).astype(np.uint8)))


def flip_what_differs(observation):
    return int(np.argmax(observation["observation"] != observation["desired_goal"]))


def test_evaluate_averages_whole_episodes():
    env = TaskEnv(BitFlipping(n_bits=6))
    perfect = evaluate(env, flip_what_differs, episodes=50, seed=0)
    assert perfect.success_rate == 1
    assert perfect.mean_return == pytest.approx(1 - perfect.mean_length)
    hopeless = evaluate(TaskEnv(BitFlipping(n_bits=6)), lambda observation: 0, episodes=50, seed=0)
    assert (hopeless.success_rate < 0.2, 5 < hopeless.mean_length <= 6) == (True, True)
    assert evaluate(env, flip_what_differs, episodes=50, seed=0) == perfect
    with pytest.raises(ValueError, match="episodes must be a whole number >= 1, got 0"):
        evaluate(env, flip_what_differs, episodes=0)
    with pytest.raises(ValueError, match="info must tell success as 'is_success' or 'success', got"):
        evaluate(gym.make("CartPole-v1"), lambda observation: 0, episodes=1)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(0, marks=pytest.mark.slow),
        pytest.param(1, marks=pytest.mark.campaign),
        pytest.param(2, marks=pytest.mark.campaign),
    ],
)
def test_dqn_solves_15_bits_with_her_and_not_without(seed):
    env = gym.make("her_envs/BitFlipping-v0", n_bits=15)
    rates = {
        her: evaluate(
            env, train(15, 20_000, seed, her=her, show=lambda run: None).agent.act, 100, 7
        ).success_rate
        for her in (True, False)
    }
    assert rates[True] >= 0.95
    assert rates[False] <= 0.05


@pytest.mark.parametrize(
    ("bits", "steps", "least"),
    [
        pytest.param(5, 10_000, 0.95, marks=pytest.mark.slow),
        pytest.param(10, 50_000, 0.9, marks=pytest.mark.campaign),
    ],
)
def test_the_baseline_without_her_is_an_honest_one(bits, steps, least):
    run = train(bits, steps, 0, her=False, show=lambda run: None)
    env = gym.make("her_envs/BitFlipping-v0", n_bits=bits)
    assert evaluate(env, run.agent.act, 100, 7).success_rate >= least
