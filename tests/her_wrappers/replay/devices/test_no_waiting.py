"""Sampling never waits for the device."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from her_wrappers import Mixture, Priority
from tests.support.tensors import DEVICES, cpu_buffer

pytestmark = pytest.mark.arrays_only("devices are given in each test")


class NothingWaits(TorchDispatchMode):
    """A torch mode that raises an error at operations whose results the host has to wait for."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique", "bincount")

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation.name().removeprefix("aten::").split(".")[0]
        assert name not in self.WAITING, name
        if name in {"index", "index_put_"}:  # torch waits for the number of True values
            assert not any(index is not None and index.dtype == torch.bool for index in args[1])
        return operation(*args, **(kwargs or {}))


WAITING = (
    "item",
    "cpu",
    "numpy",
    "tolist",
    "nonzero",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "__array__",
)


@contextlib.contextmanager
def cuda_refuses_to_wait():
    """Make CUDA, if it is available, raise an error at operations that synchronize with the host."""
    if not torch.cuda.is_available():
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("termination", ["recompute", "success", "keep", "never"])
@pytest.mark.parametrize(
    "strategy",
    [
        "future",
        "random",
        Mixture({"future": 0.5, "original": 0.5}),
        Mixture({"future": 0.5, "desired": 0.3, "original": 0.2}),
    ],
)
@pytest.mark.parametrize("options", [{}, {"n_steps": 3}, {"prioritized": Priority()}])
@pytest.mark.parametrize("device", DEVICES)
def test_sampling_never_waits_for_the_device(device, termination, strategy, options, monkeypatch):
    buffer = cpu_buffer(device=device, termination=termination, goal_selection_strategy=strategy, **options)
    assert buffer.on_device
    buffer.sample(32)

    def refuse(*arguments):
        raise AssertionError("the host waits for the device")

    with monkeypatch.context() as patch, NothingWaits(), cuda_refuses_to_wait():
        for name in WAITING:
            patch.setattr(torch.Tensor, name, refuse)
        batches = [buffer.sample(32) for _ in range(40)]
    assert sum(int((batch.rewards == 0).sum()) for batch in batches) > 0


def test_reading_from_the_device_is_detected():
    flags = torch.tensor([True, False])
    for wait in (lambda: bool(flags[0]), lambda: flags[flags], lambda: torch.nonzero(flags), flags[0].item):
        with pytest.raises(AssertionError), NothingWaits():
            wait()
