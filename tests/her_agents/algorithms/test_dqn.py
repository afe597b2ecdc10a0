"""DQN in cases that can be computed by hand."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
import torch

from her_agents.algorithms.dqn import DQN
from tests.support.transitions import BITS, bit_transition, set_output


def value(agent, bits, action):
    observation = {key: np.int8([bits]) for key in ("observation", "achieved_goal")}
    tensors, _ = agent.inputs.as_batch(observation | {"desired_goal": np.int8([[1, 1]])})
    return agent.network(agent.inputs(tensors))[0, action].item()


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


def masked_space(mask):
    return gym.spaces.Dict({**BITS.observation_space.spaces, "action_mask": mask})


def masked_agent(count, **options):
    space = masked_space(gym.spaces.MultiBinary(count))
    return DQN(space, gym.spaces.Discrete(count, start=5), epsilon=0.5, hidden=(8,), **options)


@pytest.mark.parametrize("dtype", [np.int8, bool])
def test_never_chooses_a_masked_action(dtype):
    agent, rng = masked_agent(6), np.random.default_rng(0)
    masks = rng.random((400, 6)) < 0.4
    masks[np.arange(400), rng.integers(6, size=400)] = True
    observation = {"observation": np.ones((400, 2), np.int8), "desired_goal": np.zeros((400, 2), np.int8)}
    observation |= {"action_mask": masks.astype(dtype)}
    chosen = [agent.act(observation, explore=explore) - 5 for explore in (False, True)]
    for actions in chosen:
        assert masks[np.arange(400), actions].all()
    assert (chosen[0] != chosen[1]).any()
    with torch.no_grad():
        values = agent.network(agent.inputs(observation)).numpy()
    assert np.array_equal(chosen[0], np.where(masks, values, -np.inf).argmax(axis=1))
    single = {key: rows[0] for key, rows in observation.items()}
    assert agent.act(single) == chosen[0][0] + 5


def test_random_valid_actions_are_uniform():
    agent = masked_agent(4)
    agent.options = dataclasses.replace(agent.options, epsilon=1.0)
    count = 3000
    observation = {key: np.zeros((count, 2), np.int8) for key in ("observation", "desired_goal")}
    mask = np.tile(np.int8([1, 0, 1, 1]), (count, 1))
    counts = np.bincount(agent.act(observation | {"action_mask": mask}, explore=True) - 5, minlength=4)
    assert counts[1] == 0
    assert all(abs(counts[[0, 2, 3]] - 1000) < 130)  # five standard deviations


@pytest.mark.parametrize(("mask", "expected"), [([1, 0], -3), ([0, 1], -7), ([1, 1], -7)])
def test_targets_use_the_best_valid_next_action(mask, expected):
    space = masked_space(gym.spaces.MultiBinary(2))
    agent = DQN(space, BITS.action_space, gamma=0.5, clip_targets=False)
    set_output(agent.network, 4.0, 5.0)
    set_output(agent.target, -3.0, -7.0)
    batch = bit_transition(terminated=False)
    for observations in (batch.observations, batch.next_observations):
        observations["action_mask"] = np.tile(np.int8(mask), (64, 1))
    targets = agent.target_values(batch, agent.inputs(batch.next_observations))
    assert targets[0].item() == pytest.approx(-1 + 0.5 * expected)
    assert torch.isfinite(agent.update(batch)["loss"])


def test_a_mask_needs_one_value_for_each_action():
    with pytest.raises(TypeError, match=r"'action_mask' must have .* shape \(2,\), got MultiBinary\(3\)"):
        DQN(masked_space(gym.spaces.MultiBinary(3)), BITS.action_space)
    DQN(masked_space(gym.spaces.MultiBinary(2)), BITS.action_space)
