"""Devices, memory, dtypes and functions that cannot be used give an error and leave the buffer usable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces

from her_wrappers import HindsightReplayBuffer
from tests.support.counting import (
    ACTIONS,
    counting_buffer,
    counting_episode,
)
from tests.support.tensors import cpu_buffer, sparse, with_numpy

pytestmark = pytest.mark.arrays_only("devices are given in each test")


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "meta", "cpu:x", 3.5, ""])
def test_the_error_for_an_unavailable_device_lists_available_ones(device):
    with pytest.raises(
        ValueError, match=f"^device must be one that torch can use here, 'cpu'.*, got {device!r}$"
    ):
        counting_buffer(device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_cuda_is_an_error_without_cuda():
    with pytest.raises(ValueError, match=r"^device must be one that torch can use here, 'cpu', got 'cuda'$"):
        counting_buffer(device="cuda")


def test_a_device_without_torch_is_an_error_with_the_fix(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    message = r"^device='cuda' needs torch; run: pip install \"her-toolkit\[torch\]\", or leave device out$"
    with pytest.raises(ImportError, match=message):
        counting_buffer(device="cuda")
    assert len(cpu_buffer(device=None).sample(3)) == 3


def test_to_torch_without_torch_is_an_error_with_the_fix(monkeypatch):
    batch = cpu_buffer(device=None).sample(3)
    monkeypatch.setitem(sys.modules, "torch", None)
    message = r"^to_torch needs torch; run: pip install \"her-toolkit\[torch\]\", or use the arrays$"
    with pytest.raises(ImportError, match=message):
        batch.to_torch()


def test_a_buffer_of_arrays_does_not_import_torch():
    code = """
import sys
from tests.support.counting import counting_buffer, counting_episode
buffer = counting_buffer(n_steps=2)
buffer.add_episode(counting_episode(0, 5))
buffer.sample(8)
buffer.statistics()
sys.exit("torch" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


@pytest.mark.parametrize("buffer_size", [10**15, 10**18, 2**62])
def test_more_memory_than_a_device_has_is_an_error_with_its_name(buffer_size):
    with pytest.raises(
        MemoryError,
        match=r"^on cpu buffer_size=\d+ needs \d+\.\d GiB, and there is not enough memory; use a smaller",
    ):
        counting_buffer(device="cpu", buffer_size=buffer_size)


def test_a_buffer_that_cannot_grow_on_its_device_is_unchanged(monkeypatch):
    buffer = counting_buffer(device="cpu", buffer_size=2000)
    buffer.add_episode(counting_episode(0, 900))
    empty = torch.empty

    def little(shape, **options):
        if np.prod(shape) > 30_000:
            raise RuntimeError("CUDA out of memory")
        return empty(shape, **options)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty", little)
        with pytest.raises(MemoryError, match=r"^cannot allocate 0\.0 GiB on cpu$"):
            buffer.add_episodes([counting_episode(1 + number, 1) for number in range(700)])
        with pytest.raises(MemoryError, match=r"^cannot allocate 0\.0 GiB on cpu$"):
            buffer.sample(10_000)
    buffer.verify()
    assert set(buffer.sample(20_000).index.tolist()) == set(range(900))


@pytest.mark.parametrize("function", [sparse, with_numpy], ids=["on the device", "on the host"])
def test_a_dtype_that_torch_does_not_support_is_an_error(function):
    box = spaces.Box(0, 1, (2,), np.longdouble)
    space = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), box))
    with pytest.raises(
        TypeError, match=r"^observations/achieved_goal has dtype \w+, which torch .* does not have"
    ):
        HindsightReplayBuffer(space, ACTIONS, compute_reward=function, device="cpu")
    HindsightReplayBuffer(space, ACTIONS, compute_reward=function)


@pytest.mark.parametrize("name", [">f4", ">i8"])
def test_a_dtype_of_another_byte_order_is_an_error(name):
    """The bytes of such arrays would be read as other numbers."""
    dtype = np.dtype(name)
    box = spaces.Box(0, 9, (2,), dtype)
    space = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), box))
    with pytest.raises(
        TypeError, match=rf"^observations/achieved_goal has dtype {name}, which torch .* not have"
    ):
        HindsightReplayBuffer(space, ACTIONS, compute_reward=sparse, device="cpu")


def test_a_wrong_reward_on_the_device_leaves_the_buffer_usable():
    wrong = []

    def reward(achieved, desired, info):
        if wrong and isinstance(achieved, torch.Tensor):
            return wrong[0](len(achieved))
        return sparse(achieved, desired, info)

    buffer = cpu_buffer(compute_reward=reward)
    for answer, message in [
        (
            lambda count: torch.zeros(3),
            r"must return numbers of shape \(\d+,\) on cpu, got torch.float32 of shape \(3,\) on cpu",
        ),
        (
            lambda count: torch.zeros(count) * 1j,
            "must return numbers of shape .*, got torch.complex64 of shape",
        ),
        (
            lambda count: torch.zeros(count, device="meta"),
            r"must return numbers of .* on cpu, got .* on meta",
        ),
        (np.zeros, "must return a tensor for tensors, got ndarray"),
    ]:
        wrong[:] = [answer]
        with pytest.raises(ValueError, match=f"^compute_reward {message}"):
            buffer.sample(32)
    wrong.clear()
    assert len(buffer.sample(32)) == 32
