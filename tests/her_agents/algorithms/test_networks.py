"""The normalizer, and network inputs."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from her_agents.algorithms.networks import LARGEST, LEAST_DEVIATION, GoalInputs, Network, Normalizer
from her_envs import BitFlipping, PointPush


@settings(max_examples=20)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    offset=st.floats(-1e3, 1e3),
    size=st.floats(0.1, 100),
    seed=st.integers(0, 2**32 - 1),
)
def test_normalizer_computes_mean_and_deviation_of_all_batches(lengths, offset, size, seed):
    rng = np.random.default_rng(seed)
    stream = [rng.normal(offset, size, (length, 3)).astype(np.float32) for length in lengths]
    normalizer = Normalizer(3)
    for values in stream:
        normalizer.update(torch.from_numpy(values))
    values = np.concatenate(stream).astype(np.float64)
    np.testing.assert_allclose(normalizer.sums[0] / normalizer.count, values.mean(0), rtol=1e-6, atol=1e-6)
    deviation = np.maximum(values.std(0), LEAST_DEVIATION)
    np.testing.assert_allclose(1 / normalizer.scale, deviation, rtol=1e-4, atol=1e-6)
    expected = ((values - values.mean(0)) / deviation).clip(-LARGEST, LARGEST)
    np.testing.assert_allclose(
        normalizer(torch.from_numpy(values).float()), expected, atol=1e-2 * (1 + abs(offset))
    )


def test_normalizer_clips_and_supports_constant_components():
    normalizer = Normalizer(2)
    assert normalizer(torch.tensor([[3.0, -9.0]])).tolist() == [[3.0, -5.0]], (
        "without data the values are not changed"
    )
    normalizer.update(torch.tensor([[1.0, 7.0], [3.0, 7.0]]))
    assert normalizer(torch.tensor([[3.0, 7.01], [99.0, 0.0]])).tolist() == [
        [1.0, pytest.approx(1, abs=1e-3)],
        [5.0, -5.0],
    ]


def test_achieved_and_desired_goals_have_common_statistics():
    task = PointPush()
    inputs = GoalInputs(task.observation_space)
    observations = task.observe(task.reset(50, np.random.default_rng(0)))
    observations["achieved_goal"] += 3
    inputs(observations, update=True)
    observation, goals = (
        observations["observation"].astype(np.float64),
        np.concatenate([observations["achieved_goal"], observations["desired_goal"]], dtype=np.float64),
    )
    mean = np.concatenate([observation.mean(0), goals.mean(0)])
    deviation = np.concatenate([observation.std(0), goals.std(0)])
    np.testing.assert_allclose(inputs.normalizer.shift, mean, rtol=1e-6)
    np.testing.assert_allclose(1 / inputs.normalizer.scale, np.maximum(deviation, 0.01), rtol=1e-5)
    both = np.concatenate([observations["observation"], observations["desired_goal"]], axis=1)
    expected = ((both - mean) / np.maximum(deviation, 0.01)).clip(-5, 5)
    np.testing.assert_allclose(inputs(observations).vectors, expected, rtol=1e-3, atol=1e-4)


def test_images_are_stacked_for_both_channel_orders():
    seen = []
    for channel_first in (True, False):
        task = BitFlipping(n_bits=5, observation="image", channel_first=channel_first)
        inputs = GoalInputs(task.observation_space)
        state = task.reset(2, np.random.default_rng(0))
        tensors, single = inputs.as_batch(task.observe(state))
        assert not single
        assert inputs.as_batch({key: rows[0] for key, rows in task.observe(state).items()})[1]
        seen.append(inputs(tensors).images[0])
    assert seen[0].shape == (2, 2, 36, 36)
    assert torch.equal(*seen)


def test_layer_norm_makes_the_output_independent_of_the_scale_of_the_first_weights():
    inputs = GoalInputs(PointPush().observation_space)
    network = Network(inputs, (16, 16), 2, layer_norm=True)
    values = inputs(PointPush().observe(PointPush().reset(5, np.random.default_rng(0))))
    before = network(values)
    with torch.no_grad():
        network.layers[0].weight.mul_(10)
        network.layers[0].bias.mul_(10)
    torch.testing.assert_close(network(values), before, atol=1e-2, rtol=0)
