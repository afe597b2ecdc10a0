"""What agents are made of: the normaliser, what networks see, and exploration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.agents.networks import GoalInputs, Network, explored, follow
from examples.agents.normalizer import Normalizer
from her_envs import BitFlipping, PointPush


@settings(max_examples=50)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    offset=st.floats(-1e3, 1e3),
    size=st.floats(0.1, 100),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_normaliser_knows_what_numpy_knows_of_the_whole_stream(lengths, offset, size, seed):
    rng = np.random.default_rng(seed)
    stream = [rng.normal(offset, size, (length, 3)).astype(np.float32) for length in lengths]
    normalizer = Normalizer(3, clip=1e9, least_deviation=1e-3)
    for values in stream:
        normalizer.learn(torch.from_numpy(values))
    values = np.concatenate(stream).astype(np.float64)
    np.testing.assert_allclose(normalizer.mean, values.mean(0), rtol=1e-6, atol=1e-6)
    deviation = np.maximum(values.std(0), 1e-3)
    np.testing.assert_allclose(1 / normalizer.scale, deviation, rtol=1e-4, atol=1e-6)
    expected = (values - values.mean(0)) / deviation
    np.testing.assert_allclose(
        normalizer(torch.from_numpy(values).float()), expected, atol=1e-2 * (1 + abs(offset))
    )


def test_the_normaliser_clips_and_spares_what_never_changes():
    normalizer = Normalizer(2)
    assert normalizer(torch.tensor([[3.0, -9.0]])).tolist() == [[3.0, -5.0]], "at first it changes nothing"
    normalizer.learn(torch.tensor([[1.0, 7.0], [3.0, 7.0]]))
    assert normalizer(torch.tensor([[3.0, 7.01], [99.0, 0.0]])).tolist() == [
        [1.0, pytest.approx(1, abs=1e-3)],
        [5.0, -5.0],
    ]


def test_achieved_and_desired_goals_share_one_statistic():
    task = PointPush()
    inputs = GoalInputs(task.observation_space)
    observations = {
        key: torch.from_numpy(rows)
        for key, rows in task.observe(task.reset(50, np.random.default_rng(0))).items()
    }
    observations["achieved_goal"] += 3
    inputs.learn(observations)
    goals = torch.cat([observations["achieved_goal"], observations["desired_goal"]]).double()
    normalizer = inputs.normalizers["desired_goal"]
    np.testing.assert_allclose(normalizer.mean, goals.mean(0))
    np.testing.assert_allclose(1 / normalizer.scale, goals.std(0, correction=0), rtol=1e-5)
    seen = inputs(observations).vectors
    expected = (observations["observation"] - inputs.normalizers["observation"].shift) * inputs.normalizers[
        "observation"
    ].scale
    width = expected.shape[1]
    np.testing.assert_allclose(seen[:, :width], expected.clamp(-5, 5))
    np.testing.assert_allclose(seen[:, width:], normalizer(observations["desired_goal"]))


def test_images_are_laid_over_each_other_wherever_their_channels_are():
    seen = []
    for channel_first in (True, False):
        task = BitFlipping(n_bits=5, observation="image", channel_first=channel_first)
        inputs = GoalInputs(task.observation_space)
        state = task.reset(2, np.random.default_rng(0))
        tensors, single = inputs.as_batch(task.observe(state))
        assert not single
        assert inputs.as_batch({key: rows[0] for key, rows in task.observe(state).items()})[1]
        seen.append(inputs(tensors).images)
    assert seen[0].shape == (2, 2, 36, 36)
    assert torch.equal(*seen)


def test_a_vector_goal_stands_beside_an_image():
    image, goal = spaces.Box(0, 255, (24, 24, 3), np.uint8), spaces.Box(-1, 1, (2,))
    space = spaces.Dict(observation=image, achieved_goal=goal, desired_goal=goal)
    inputs = GoalInputs(space)
    network = Network(inputs, (8,), 4)
    space.seed(0)
    tensors, single = inputs.as_batch(space.sample())
    assert single
    first = network(inputs(tensors))
    assert first.shape == (1, 4)
    for key in ("observation", "desired_goal"):
        other = network(inputs(tensors | {key: tensors[key] // 2 + 1}))
        assert not torch.allclose(first, other), f"{key} makes a difference"


NO_INPUTS = [
    (
        BitFlipping(observation="integer").observation_space,
        "observation must be a vector .* or a uint8 image of at least",
    ),
    (
        spaces.Dict(
            observation=spaces.Box(0, 255, (9, 9, 3), np.uint8),
            achieved_goal=spaces.Box(0, 1, (2,)),
            desired_goal=spaces.Box(0, 1, (2,)),
        ),
        "observation must be a vector .* at least 20 x 20 pixels, got Box",
    ),
    (
        spaces.Dict(
            observation=spaces.Box(0, 1, (24, 24, 3)),
            achieved_goal=spaces.Box(0, 1, (2,)),
            desired_goal=spaces.Box(0, 1, (2,)),
        ),
        "observation must be a vector .* or a uint8 image",
    ),
    (
        spaces.Dict(
            observation=spaces.Box(0, 255, (24, 24, 3), np.uint8),
            achieved_goal=spaces.Box(0, 255, (24, 30, 3), np.uint8),
            desired_goal=spaces.Box(0, 255, (24, 30, 3), np.uint8),
        ),
        "images must be of one size",
    ),
]


@pytest.mark.parametrize(("space", "message"), NO_INPUTS)
def test_what_networks_cannot_see_is_refused(space, message):
    with pytest.raises(TypeError, match=message):
        GoalInputs(space)


def test_exploration_is_gaussian_or_uniform():
    generator = torch.Generator().manual_seed(0)
    actions = torch.zeros(20_000, 1)
    gaussian = explored(actions, 0.0, 0.1, generator)
    assert gaussian.std().item() == pytest.approx(0.1, rel=0.03)
    uniform = explored(actions, 1.0, 0.1, generator)
    assert uniform.std().item() == pytest.approx(1 / 3**0.5, rel=0.03)
    mixed = explored(actions, 0.25, 0.0, generator)
    assert (mixed != 0).float().mean().item() == pytest.approx(0.25, abs=0.02)
    assert explored(actions + 1, 0.0, 5.0, generator).abs().max() <= 1


def test_a_target_follows_by_a_share_of_the_way():
    slow, fast = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    expected = 0.75 * slow.weight + 0.25 * fast.weight
    follow(slow, fast, 0.25)
    torch.testing.assert_close(slow.weight, expected)
