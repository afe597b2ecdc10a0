"""Internals, `torch_backend.py`: detection of user functions that accept tensors."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

from her_wrappers import HindsightReplayBuffer
from her_wrappers.replay.torch_backend import incompatibility
from tests.support.counting import (
    ACTIONS,
    SPACE,
    counting_buffer,
)
from tests.support.tensors import as_float32, assert_equal, cpu_buffer, sparse, with_numpy

pytestmark = pytest.mark.arrays_only("devices are given in each test")


def otherwise(achieved, desired, info):
    return sparse(achieved, desired, info) - 1.0 * isinstance(achieved, torch.Tensor)


def of_no_shape(achieved, desired, info):
    return (
        -1.0 + (achieved == desired).all()
        if isinstance(achieved, torch.Tensor)
        else sparse(achieved, desired, info)
    )


def warning(achieved, desired, info):
    if isinstance(achieved, torch.Tensor):
        warnings.warn("tensors are slow", stacklevel=1)
    return sparse(achieved, desired, info)


def always_warning(achieved, desired, info):
    warnings.warn("rewards are slow", stacklevel=1)
    return sparse(achieved, desired, info)


def writing(achieved, desired, info):
    rewards = sparse(achieved, desired, info)
    if isinstance(achieved, torch.Tensor):
        desired += 1
    return rewards


def writing_elsewhere(achieved, desired, info):
    rewards = sparse(achieved, desired, info)
    if isinstance(achieved, torch.Tensor):
        achieved += 1
    return rewards


def of_one_goal(achieved, desired, info):
    return bool((achieved == desired).all())


UNFIT = {
    with_numpy: "compute_reward must return a tensor for tensors, got ndarray",
    as_float32: "compute_reward raises AttributeError: 'Tensor' object has no attribute 'astype'",
    otherwise: "compute_reward returns [-1.0, -2.0] for tensors and [0.0, -1.0] for arrays",
    of_no_shape: "compute_reward must return numbers of shape (2,) on cpu, got torch.float32 of shape () on "
    "cpu; reduce over the goal's own axes only",
    warning: "compute_reward warns if it gets tensors",
    writing: "compute_reward writes to its arguments",
    writing_elsewhere: "compute_reward writes to its arguments",
}


def reason(buffer):
    """Return the reason why functions of a buffer are not called with tensors."""
    return incompatibility(buffer._relabeler, buffer._storage.memory.layout, torch.device("cpu"))


@pytest.mark.parametrize("function", UNFIT, ids=lambda function: function.__name__)
def test_a_reward_that_does_not_take_tensors_is_computed_on_the_host(function):
    """The batch equals a batch without a device, converted to tensors."""
    buffer = cpu_buffer(compute_reward=function)
    assert not buffer.on_device
    assert reason(buffer) == UNFIT[function]
    batch = buffer.sample(64)
    assert isinstance(batch.rewards, torch.Tensor)
    assert_equal(batch, cpu_buffer(device=None, compute_reward=function).sample(64))
    assert_equal(batch.to_torch(), batch)


@pytest.mark.parametrize("function", [with_numpy, as_float32, of_one_goal], ids=lambda each: each.__name__)
def test_terminations_that_do_not_take_tensors_are_computed_on_the_host(function):
    def terminated(achieved, desired, info):
        answer = function(achieved, desired, info)
        return answer if function is of_one_goal else answer == 0

    buffer = cpu_buffer(compute_terminated=terminated)
    assert not buffer.on_device
    assert reason(buffer).startswith("compute_terminated ")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="compute_terminated accepts single goals")
        assert_equal(buffer.sample(64), cpu_buffer(device=None, compute_terminated=terminated).sample(64))


def test_probing_a_function_has_no_side_effects(recwarn):
    """Probing warns about nothing, and leaves the global generator and those of the spaces unchanged."""
    state, seen = np.random.get_state()[1].copy(), copy.deepcopy(SPACE)  # noqa: NPY002 - that it stays as it is
    seen.seed(3)
    twin = copy.deepcopy(seen)
    actions, other_actions = spaces.Discrete(1000, seed=3), spaces.Discrete(1000, seed=3)
    torch_state = torch.get_rng_state()
    for function in UNFIT:
        HindsightReplayBuffer(seen, actions, compute_reward=function, device="cpu")
    assert HindsightReplayBuffer(seen, ACTIONS, compute_reward=always_warning, device="cpu").on_device
    assert not recwarn
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002 - the same
    assert torch.equal(torch_state, torch.get_rng_state())
    np.testing.assert_array_equal(seen.sample()["observation"], twin.sample()["observation"])
    assert [actions.sample() for _ in range(9)] == [other_actions.sample() for _ in range(9)]


def reward_less_cost(achieved, desired, info):
    return sparse(achieved, desired, info) - info["cost"]


def test_functions_with_infos_that_do_not_fit_tensors_are_called_on_the_host():
    """The dtypes of infos are not known in advance, and a function of floats may raise for bools."""
    options = {"compute_reward": reward_less_cost, "info_format": "columns"}
    buffer = counting_buffer(info_keys=["cost"], device="cpu", **options)
    assert "with a bool tensor is not supported" in reason(buffer)
    assert not buffer.on_device
    assert not counting_buffer(info_keys=["cost", "b", "c", "d"], device="cpu", **options).on_device
    as_dicts = counting_buffer(info_keys=["cost"], info_format="list", device="cpu")
    assert reason(as_dicts) == "info_format='list' makes a dict for each row"
    plain = {"info_keys": ["cost"], "n_sampled_goal": 0}  # no function gets them
    assert counting_buffer(device="cpu", **plain).on_device
