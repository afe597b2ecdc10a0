"""Torch devices: batches of tensors."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces

from her_wrappers import HindsightReplayBuffer
from tests.support.buffers import filled
from tests.support.counting import (
    ACTIONS,
    SPACE,
    counting_buffer,
    leaves_of,
)


def test_batches_are_tensors_with_provenance_in_arrays():
    buffer = filled("cpu")
    batch = buffer.sample(32)
    assert buffer.device == torch.device("cpu")
    for leaf in leaves_of((batch.observations, batch.actions, batch.rewards, batch.relabeled, batch.index)):
        assert isinstance(leaf, torch.Tensor)
    assert (batch.rewards.dtype, batch.relabeled.dtype, batch.index.dtype) == (
        torch.float32,
        torch.bool,
        torch.int64,
    )
    assert isinstance(batch.goal_index, np.ndarray)
    assert counting_buffer().device is None


@pytest.mark.parametrize("name", ["longdouble", ">f4"])
def test_a_dtype_that_torch_does_not_support_is_an_error(name):
    """The bytes of another byte order would be read as other numbers."""
    space = spaces.Dict(dict.fromkeys(SPACE, spaces.Box(0, 9, (2,), np.dtype(name))))
    with pytest.raises(TypeError, match=r"observations/achieved_goal has dtype .* torch"):
        HindsightReplayBuffer(space, ACTIONS, n_sampled_goal=0, device="cpu")
    HindsightReplayBuffer(space, ACTIONS, n_sampled_goal=0)


def test_without_torch_devices_and_tensors_are_an_error_with_the_fix(monkeypatch):
    batch = filled(None).sample(3)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        ImportError, match=r"device='cuda' needs torch; run `pip install .*her-toolkit\[torch\]"
    ):
        counting_buffer(device="cuda")
    with pytest.raises(ImportError, match=r"to_torch needs torch; run `pip install .*her-toolkit\[torch\]"):
        batch.to_torch()


def test_a_buffer_of_arrays_does_not_import_torch():
    code = """
import sys
from her_wrappers import HindsightReplayBuffer
from tests.support.counting import SPACE, ACTIONS, compute_reward, counting_episode
buffer = HindsightReplayBuffer(SPACE, ACTIONS, compute_reward=compute_reward, n_steps=2)
buffer.add_episode(counting_episode(0, 5))
buffer.sample(8)
buffer.statistics()
sys.exit("torch" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


def test_defaults_of_torch_do_not_change_batches():
    """Another default device and another default dtype of torch give the same batches."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            buffers = [filled("cpu", n_steps=n_steps) for n_steps in (1, 3)]
            batches = [buffer.sample(32) for buffer in buffers]
    finally:
        torch.set_default_dtype(dtype)
    for n_steps, batch in zip((1, 3), batches, strict=True):
        expected = filled("cpu", n_steps=n_steps).sample(32)
        for name in ("rewards", "discounts", "index", "terminations"):
            assert torch.equal(getattr(batch, name), getattr(expected, name))
            assert getattr(batch, name).dtype == getattr(expected, name).dtype


def test_a_batch_after_others_in_inference_mode_can_be_used_in_training():
    buffer = filled("cpu", n_steps=3)
    with torch.inference_mode():
        buffer.sample(8)
        buffer.sample(8)  # prefetches another batch
    batch = buffer.sample(8)
    batch.map(lambda leaf: leaf.zero_())
    values = torch.ones(1, 12, requires_grad=True)
    values.expand(8, 12).gather(1, batch.index[:, None]).sum().backward()
    assert values.grad[0, 0] == 8
