"""Torch devices: batches of tensors, functions for tensors, and no wait for the device."""

import contextlib
import copy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.utils._python_dispatch import TorchDispatchMode

from her_wrappers import HindsightReplayBuffer, Mixture, Priority
from tests.support.buffers import DEVICES, filled, make_buffer
from tests.support.counting import (
    ACTIONS,
    SPACE,
    compute_reward,
    counting_buffer,
    counting_episode,
    leaves_of,
)
from tests.support.equality import assert_same_batches, assert_same_episodes


def test_batches_are_tensors_with_provenance_in_arrays():
    buffer = filled("cpu")
    batch = buffer.sample(32)
    assert buffer.on_device
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
    assert not counting_buffer().on_device


def test_functions_get_arrays_or_with_tensor_functions_tensors():
    kinds = []

    def noting(achieved, desired, info):
        kinds.append(type(achieved))
        return compute_reward(achieved, desired, info)

    buffer = counting_buffer(device="cpu", compute_reward=noting, termination="keep")
    buffer.add_episode(counting_episode(0, 9))
    assert not buffer.on_device
    assert buffer.device == torch.device("cpu")
    assert isinstance(buffer.sample(8).rewards, torch.Tensor)
    assert set(kinds) == {np.ndarray}
    of_tensors = make_buffer("cpu", compute_reward=noting, termination="keep")
    kinds.clear()
    of_tensors.add_episode(counting_episode(0, 9))
    of_tensors.sample(8)
    assert set(kinds) == {torch.Tensor}
    assert_same_batches(buffer, of_tensors)


def test_tensor_functions_need_a_device_and_infos_in_columns(tmp_path):
    with pytest.raises(ValueError, match="tensor_functions"):
        counting_buffer(tensor_functions=True)
    with pytest.raises(ValueError, match="info_format"):
        counting_buffer(tensor_functions=True, device="cpu", info_keys=["cost"], info_format="list")


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


@pytest.mark.parametrize("act", ["make", "grow", "clear", "differ"])
def test_a_buffer_filled_in_inference_mode_can_be_filled_outside_of_it(act):
    """Torch cannot write to inference tensors outside of inference mode."""
    buffer = filled("cpu", buffer_size=200)
    with torch.inference_mode():
        if act == "make":
            buffer = make_buffer("cpu", buffer_size=200)
        elif act == "differ":  # from now on, observations and achieved goals have memory of their own
            seen = counting_episode(1, 5).observations | {"observation": np.zeros((6, 2))}
            buffer.add_episode(counting_episode(1, 5, observations=seen))
        elif act == "grow":
            buffer.add_episodes([counting_episode(number, 1) for number in range(200)])
        else:
            buffer.clear()
    buffer.add_episode(counting_episode(7, 150))
    assert 7 in buffer.sample(200).observations["observation"][:, 0]


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


def test_a_buffer_that_cannot_grow_on_its_device_is_unchanged(monkeypatch):
    buffer = filled("cpu", buffer_size=2000)
    before, create = (
        copy.deepcopy(buffer),
        {name: getattr(torch, name) for name in ("empty", "zeros", "full")},
    )

    def without_memory(name):
        def little(*shape, **options):
            if np.prod(shape[0] if isinstance(shape[0], tuple | list | torch.Size) else shape) > 20_000:
                raise RuntimeError("CUDA out of memory")
            return create[name](*shape, **options)

        return little

    one_step = [counting_episode(3 + number, 1) for number in range(1900)]
    with monkeypatch.context() as patch:
        for name in create:
            patch.setattr(torch, name, without_memory(name))
        with contextlib.suppress(MemoryError):  # if the memory grows only later
            buffer.add_episodes(one_step)
        with pytest.raises((MemoryError, RuntimeError)):
            buffer.sample(30_000)
    buffer.verify()
    assert len(buffer) in {len(before), len(before) + 1900}
    if len(buffer) == len(before):
        assert_same_episodes(buffer.episodes(), before.episodes())
        buffer.add_episodes(one_step)
    assert len(buffer.sample(10)) == 10
    assert len(buffer) == 1912


class NothingWaits(TorchDispatchMode):
    """A torch mode that raises an error at operations whose results the host has to wait for."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique", "bincount")

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation.name().removeprefix("aten::").split(".")[0]
        assert name not in self.WAITING, name
        if name in {"index", "index_put_"}:  # torch waits for the number of True values
            assert not any(index is not None and index.dtype == torch.bool for index in args[1])
        return operation(*args, **(kwargs or {}))


WAITING = "item", "cpu", "numpy", "tolist", "nonzero", "__bool__", "__int__", "__float__", "__array__"


@contextlib.contextmanager
def cuda_refuses_to_wait():
    """Make CUDA, if it is available, raise an error at operations that synchronize with the host."""
    if not torch.cuda.is_available():
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that this mode is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("termination", ["recompute", "success", "keep"])
@pytest.mark.parametrize("options", [{"n_steps": 3}, {"prioritized": Priority()}])
@pytest.mark.parametrize("device", DEVICES[1:])
def test_sampling_never_waits_for_the_device(device, termination, options, monkeypatch):
    mixture = Mixture({"future": 0.4, "desired": 0.2, "random": 0.2, "original": 0.2})
    buffer = filled(device, termination=termination, goal_selection_strategy=mixture, **options)
    assert buffer.on_device
    buffer.sample(32)

    def refuse(*arguments):
        raise AssertionError("the host waits for the device")

    with monkeypatch.context() as patch, NothingWaits(), cuda_refuses_to_wait():
        for name in WAITING:
            patch.setattr(torch.Tensor, name, refuse)
        batches = [buffer.sample(32) for _ in range(40)]
    assert sum(int((batch.rewards == 0).sum()) for batch in batches) > 0


def test_reversed_arrays_and_long_rewards_are_stored_on_a_device():
    buffer, episode = make_buffer("cpu", buffer_size=8), counting_episode(0, 5)
    buffer.add_episode(episode)
    reversed_ = {key: values[::-1] for key, values in episode.observations.items()}
    rewards = episode.rewards.astype(np.longdouble)
    buffer.add_episode(counting_episode(1, 5, observations=reversed_, rewards=rewards))
    (stored,) = buffer.episodes()
    np.testing.assert_array_equal(stored.observations["observation"], reversed_["observation"])
