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
from tests.support.counting import ACTIONS, SPACE, counting_buffer, leaves_of


def test_batches_are_tensors_with_provenance_in_arrays():
    buffer = filled("cpu")
    batch = buffer.sample(32)
    assert (buffer.device, counting_buffer().device) == (torch.device("cpu"), None)
    for leaf in leaves_of((batch.observations, batch.actions, batch.rewards, batch.relabeled, batch.index)):
        assert isinstance(leaf, torch.Tensor)
    dtypes = batch.rewards.dtype, batch.relabeled.dtype, batch.index.dtype
    assert dtypes == (torch.float32, torch.bool, torch.int64)
    assert isinstance(batch.goal_index, np.ndarray)


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
    with pytest.raises(ImportError, match="device='cuda'"):
        counting_buffer(device="cuda")
    with pytest.raises(ImportError, match="to_torch"):
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
