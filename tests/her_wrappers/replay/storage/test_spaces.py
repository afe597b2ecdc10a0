"""Values of every space of arrays are stored and returned exactly."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers import Episode, HindsightReplayBuffer
from tests.support.counting import ACTIONS, SPACE, compute_reward, counting_episode
from tests.support.odd_spaces import ODD_SPACES, random_tree


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 8, 9, 15, 16, 17, 33])
def test_goals_of_every_size_reach_the_rows_that_they_belong_to(size):
    """Records are padded to sizes that NumPy copies faster."""
    goal, tiny = spaces.Box(0, 255, (size,), np.uint8), spaces.Box(0, 255, (1,), np.uint8)
    space = spaces.Dict({"observation": tiny, "achieved_goal": goal, "desired_goal": goal})
    buffer = HindsightReplayBuffer(
        space, tiny, buffer_size=20, compute_reward=lambda achieved, desired, info: np.full(len(desired), -1)
    )
    rng = np.random.default_rng(0)
    achieved, desired = rng.integers(256, size=(2, 30, 11, size), dtype=np.uint8)
    for number in range(30):
        observations = {"achieved_goal": achieved[number], "desired_goal": desired[number]}
        observations["observation"] = np.arange(11, dtype=np.uint8)[:, None]
        actions = np.zeros((10, 1), np.uint8)
        buffer.add_episode(counting_episode(0, 10, observations=observations, actions=actions))
    batch = buffer.sample(1000)
    episode, t = np.divmod(batch.index, 10)
    goals = np.where(
        batch.relabeled[:, None],
        achieved[batch.goal_index // 10, batch.goal_index % 10 + 1],
        desired[episode, t],
    )
    next_goals = np.where(batch.relabeled[:, None], goals, desired[episode, t + 1])
    np.testing.assert_array_equal(batch.observations["desired_goal"], goals)
    np.testing.assert_array_equal(batch.next_observations["desired_goal"], next_goals)
    np.testing.assert_array_equal(batch.next_observations["achieved_goal"], achieved[episode, t + 1])
    np.testing.assert_array_equal(batch.observations["observation"], t[:, None])


@pytest.mark.parametrize("n_steps", [1, 3])
def test_batches_with_goals_of_size_0_become_tensors(n_steps):
    nothing = spaces.Box(-1, 1, (0,), np.float32)
    space = spaces.Dict({"observation": ACTIONS, "achieved_goal": nothing, "desired_goal": nothing})
    buffer = HindsightReplayBuffer(
        space, ACTIONS, compute_reward=lambda achieved, desired, info: achieved.sum(-1) - 1, n_steps=n_steps
    )
    goals = np.zeros((4, 0), np.float32)
    observations = {"observation": np.ones((4, 1)), "achieved_goal": goals, "desired_goal": goals}
    buffer.add_episode(counting_episode(0, 3, observations=observations))
    tensors = buffer.sample(5).to_torch().next_observations
    assert {key: tuple(tensor.shape) for key, tensor in tensors.items()} == {
        "observation": (5, 1), "achieved_goal": (5, 0), "desired_goal": (5, 0),
    }  # fmt: skip


def assert_row(space, tree, i, whole, j):
    """Assert that row i of ``tree`` is row j of ``whole``, with the dtype and shape of the space."""
    if isinstance(space, spaces.Dict):
        for key, part in space.items():
            assert_row(part, tree[key], i, whole[key], j)
    elif isinstance(space, spaces.Tuple):
        for part, inner, inner_whole in zip(space, tree, whole, strict=True):
            assert_row(part, inner, i, inner_whole, j)
    else:
        assert tree.dtype == space.dtype
        assert tree.shape[1:] == space.shape
        np.testing.assert_array_equal(tree[i], whole[j])


@pytest.mark.parametrize("actions", ["discrete", "nested", "half"])
@pytest.mark.parametrize("name", ODD_SPACES)
def test_every_space_of_arrays_is_stored_and_given_back_exactly(name, actions):
    observation, goal = ODD_SPACES[name]
    space = spaces.Dict(
        observation=observation, achieved_goal=goal, desired_goal=goal, extra=spaces.Discrete(2)
    )
    action_space = ODD_SPACES[actions][0]

    def reward(achieved, desired, info):
        equal = (achieved == desired).reshape(len(achieved), -1)
        return -1.0 + equal.all(-1)

    observations, taken = random_tree(space, 8), random_tree(action_space, 7)
    observations["desired_goal"][:] = observations["desired_goal"][:1]
    rewards = reward(observations["achieved_goal"][1:], observations["desired_goal"][1:], None)
    episode = Episode(observations, taken, rewards, terminated=False, truncated=True)
    buffer = HindsightReplayBuffer(
        space, action_space, buffer_size=20, compute_reward=reward, termination="keep"
    )
    for _ in range(4):
        buffer.add_episode(episode)
    batch = buffer.sample(60)
    for i in range(60):
        t = batch.index[i] % 7
        assert_row(action_space, batch.actions, i, taken, t)
        for key in ("observation", "achieved_goal", "extra"):
            assert_row(space[key], batch.observations[key], i, observations[key], t)
            assert_row(space[key], batch.next_observations[key], i, observations[key], t + 1)
        if not batch.relabeled[i]:
            assert_row(goal, batch.observations["desired_goal"], i, observations["desired_goal"], 0)
    assert list(batch.observations) == list(space)
    batch.to_torch()


def test_spaces_without_arrays_are_an_error():
    with pytest.raises(TypeError, match=re.escape("got Text(1, 5, charset=")):
        HindsightReplayBuffer(SPACE, spaces.Text(5), compute_reward=compute_reward)


def test_a_space_without_leaves_is_returned_unchanged():
    space = spaces.Dict({**SPACE.spaces, "observation": spaces.Dict({})})
    buffer = HindsightReplayBuffer(space, ACTIONS, compute_reward=compute_reward)
    episode = counting_episode(0, 3)
    buffer.add_episode(counting_episode(0, 3, observations={**episode.observations, "observation": {}}))
    assert buffer.sample(5).observations["observation"] == {}
