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
from her_wrappers import Batch

TASK = BitFlipping(n_bits=2)


@pytest.fixture(autouse=True, name="one_thread")
def use_one_thread():
    """More threads only wait for each other on networks so small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def one_transition(*, terminated):
    """The step from 10 to 11 by flipping bit 1, repeated."""
    rows = 64

    def observations(bits):
        goal = np.tile(np.int8([1, 1]), (rows, 1))
        return {"observation": np.tile(np.int8(bits), (rows, 1)), "desired_goal": goal}

    return Batch(
        observations=observations([1, 0]),
        actions=np.ones(rows, np.int64),
        rewards=np.full(rows, 0.0 if terminated else -1.0, np.float32),
        next_observations=observations([1, 1]),
        terminations=np.full(rows, terminated),
        truncations=np.zeros(rows, bool),
        discounts=np.full(rows, 0.0 if terminated else 0.5, np.float32),
        weights=np.ones(rows, np.float32),
        relabeled=np.zeros(rows, bool),
        index=np.arange(rows),
    )


def value(agent, bits, action):
    return agent._network(torch.tensor([*bits, 1.0, 1.0]))[action].item()


@pytest.mark.parametrize(("terminated", "expected"), [(True, 0.0), (False, -2.0)])
def test_values_go_where_the_bellman_equation_says(terminated, expected):
    """Without an end the value of 11 is that of its best action, held at -2 by the clip 1 / (1 - 0.5)."""
    agent = DQN(TASK.observation_space, TASK.action_space, gamma=0.5, seed=0)
    with torch.no_grad():
        agent._target[2].bias.fill_(-100)  # so low that only the clip can be the target
    losses = [agent.update(one_transition(terminated=terminated)) for _ in range(60)]
    if terminated:
        losses = [agent.update(one_transition(terminated=True)) for _ in range(200)]
    assert losses[-1] < losses[0]
    assert value(agent, [1, 0], 1) == pytest.approx(expected, abs=0.5)


def test_greedy_actions_are_the_best_and_epsilon_explores():
    agent = DQN(TASK.observation_space, TASK.action_space, seed=0)
    observation = {"observation": np.int8([1, 0]), "desired_goal": np.int8([1, 1])}
    best = int(np.argmax([value(agent, [1, 0], action) for action in range(2)]))
    assert {agent.act(observation) for _ in range(20)} == {best}
    assert {agent.act(observation, epsilon=1.0) for _ in range(50)} == {0, 1}


def test_seeds_fix_the_weights_and_leave_torch_alone():
    state = torch.random.get_rng_state()
    first, second = (DQN(TASK.observation_space, TASK.action_space, seed=4) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first._network[0].weight, second._network[0].weight)


def test_a_loaded_agent_goes_on_alike():
    agents = [DQN(TASK.observation_space, TASK.action_space, seed=seed) for seed in (0, 1)]
    agents[0].update(one_transition(terminated=True))
    agents[1].load_state_dict(agents[0].state_dict())
    losses = [agent.update(one_transition(terminated=False)) for agent in agents]
    assert losses[0] == losses[1]
    observation = {"observation": np.int8([0, 0]), "desired_goal": np.int8([1, 1])}
    assert [agents[0].act(observation, 0.5) for _ in range(20)] == [
        agents[1].act(observation, 0.5) for _ in range(20)
    ]


def test_continuous_actions_are_refused():
    with pytest.raises(TypeError, match="DQN needs Discrete actions, got Box"):
        DQN(PointReach().observation_space, PointReach().action_space)


@pytest.mark.parametrize("form", ["integer", "image"])
def test_observations_that_are_no_vectors_are_refused(form):
    task = BitFlipping(observation=form)
    with pytest.raises(TypeError, match="DQN needs vectors as observation, got"):
        DQN(task.observation_space, task.action_space)


def test_actions_may_begin_anywhere():
    agent = DQN(TASK.observation_space, gym.spaces.Discrete(2, start=5), seed=0)
    observation = {"observation": np.int8([1, 0]), "desired_goal": np.int8([1, 1])}
    assert {agent.act(observation, epsilon=1.0) for _ in range(50)} == {5, 6}
    batch = one_transition(terminated=True)
    agent.update(dataclasses.replace(batch, actions=batch.actions + 5))


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
    with pytest.raises(ValueError, match="episodes must be >= 1, got 0"):
        evaluate(env, flip_what_differs, episodes=0)
    with pytest.raises(ValueError, match="info has no 'is_success' at the end of an episode"):
        evaluate(gym.make("CartPole-v1"), lambda observation: 0, episodes=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
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


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "steps", "least"), [(5, 10_000, 0.95), (10, 50_000, 0.9)])
def test_the_baseline_without_her_is_an_honest_one(bits, steps, least):
    run = train(bits, steps, 0, her=False, show=lambda run: None)
    env = gym.make("her_envs/BitFlipping-v0", n_bits=bits)
    assert evaluate(env, run.agent.act, 100, 7).success_rate >= least
