"""Batches of tensors: types, memory, gradients, inference mode, and other defaults of torch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from her_wrappers.trees import leaf_arrays
from tests.support.counting import (
    counting_buffer,
    counting_episode,
)
from tests.support.tensors import assert_equal, cpu_buffer, sparse

pytestmark = pytest.mark.arrays_only("devices are given in each test")


def test_batches_are_tensors_with_provenance_in_arrays():
    buffer = cpu_buffer()
    batch = buffer.sample(32)
    assert buffer.on_device
    assert buffer.device == torch.device("cpu")
    for leaf in leaf_arrays([batch.observations, batch.next_observations, batch.actions][0]):
        assert isinstance(leaf, torch.Tensor)
    for name in ("actions", "rewards", "terminations", "truncations", "relabeled", "index"):
        assert isinstance(getattr(batch, name), torch.Tensor), name
    assert (batch.rewards.dtype, batch.relabeled.dtype, batch.index.dtype) == (
        torch.float32,
        torch.bool,
        torch.int64,
    )
    assert isinstance(batch.goal_index, np.ndarray)
    assert_equal(batch.to_torch("cpu"), batch)
    assert counting_buffer().device is None


def test_defaults_of_torch_do_not_change_batches():
    """Another default device and another default dtype of torch give the same batches."""
    expected = cpu_buffer().sample(32)
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            batches = [cpu_buffer(n_steps=n_steps).sample(32) for n_steps in (1, 3)]
    finally:
        torch.set_default_dtype(dtype)
    assert_equal(batches[0], expected)
    assert_equal(batches[1], cpu_buffer(n_steps=3).sample(32))


@pytest.mark.parametrize("act", ["make", "grow", "clear"])
def test_a_buffer_filled_in_inference_mode_can_be_filled_outside_of_it(act):
    """Torch cannot write to inference tensors outside of inference mode."""
    buffer = cpu_buffer(buffer_size=200)
    with torch.inference_mode():
        if act == "make":
            buffer = counting_buffer(device="cpu")
        elif act == "grow":
            buffer.add_episodes([counting_episode(number, 1) for number in range(200)])
        else:
            buffer.clear()
    buffer.add_episode(counting_episode(7, 150))
    assert set(buffer.sample(9).observations["observation"][:, 0].tolist()) <= {7, *range(150, 200)}


@pytest.mark.parametrize("n_steps", [1, 3])
def test_a_batch_after_others_in_inference_mode_can_be_used_in_training(n_steps):
    buffer = cpu_buffer(n_steps=n_steps)
    with torch.inference_mode():
        buffer.sample(8)
        buffer.sample(8)  # prefetches another batch
    batch = buffer.sample(8)
    batch.map(lambda leaf: leaf.zero_())
    values = torch.ones(1, 12, requires_grad=True)
    values.expand(8, 12).gather(1, batch.index[:, None]).sum().backward()
    assert values.grad[0, 0] == 8


WEIGHT = torch.ones((), requires_grad=True)


def learned_reward(achieved, desired, info):
    if isinstance(achieved, torch.Tensor):
        return WEIGHT * sparse(achieved, desired, info)
    return sparse(achieved, desired, info)


def test_success_compares_rewards_as_float32():
    """0.1 as float64 differs from 0.1 as float32."""

    def reward(achieved, desired, info):
        reached = (achieved == desired).all(-1)
        return 0.1 + 0.1 * (reached.double() if isinstance(reached, torch.Tensor) else reached)

    buffer = counting_buffer(device="cpu", compute_reward=reward, termination="success")
    buffer.add_episode(counting_episode(0, 5, rewards=np.full(5, 0.1)))
    assert buffer.on_device
    batch = buffer.sample(64)
    assert torch.equal(batch.terminations, batch.rewards > 0.15)
    assert batch.terminations.any()


def test_no_gradient_flows_into_a_batch():
    buffer = cpu_buffer(compute_reward=learned_reward)
    assert buffer.on_device
    assert not buffer.sample(16).rewards.requires_grad


def test_no_two_batches_and_no_two_parts_of_one_share_memory():
    buffer, twin = cpu_buffer(), cpu_buffer()
    batches = [buffer.sample(8) for _ in range(6)]
    kept = [copy.deepcopy(batch.to_numpy()) for batch in batches]
    for number, batch in enumerate(batches):
        batch.map(lambda leaf: leaf.zero_())
        for other, before in zip(batches[number + 1 :], kept[number + 1 :], strict=True):
            assert_equal(other, before)
    assert_equal(buffer.sample(8), [twin.sample(8) for _ in range(7)][-1])
    leaves = []
    twin.sample(64).map(lambda leaf: leaves.append(leaf.numpy()))
    for i, leaf in enumerate(leaves):
        assert not any(np.shares_memory(leaf, other) for other in leaves[:i])
