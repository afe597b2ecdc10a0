"""Internals, `torch_backend.py`: buffers on torch's device "meta", whose tensors have no data."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from her_wrappers.replay import torch_backend
from tests.support.counting import (
    counting_buffer,
    counting_episode,
)
from tests.support.tensors import as_float32, cpu_buffer

pytestmark = pytest.mark.arrays_only("devices are given in each test")


def test_functions_without_tensors_give_one_warning_on_other_devices_than_the_cpu(monkeypatch):
    meta = torch.device("meta")  # a device without data that is not the CPU
    monkeypatch.setattr(torch_backend, "find_device", lambda name: meta)
    message = (
        "^transitions are stored and relabeled on the host, and each batch is copied to meta, since "
        "compute_reward raises AttributeError: 'Tensor' object has no attribute 'astype'; use functions that "
        "take tensors as well as arrays to keep everything on the device$"
    )
    with pytest.warns(UserWarning, match=message) as told:
        buffer = cpu_buffer(device="meta", compute_reward=as_float32)
    assert len(told) == 1
    assert told[0].filename == str(Path(counting_buffer.__code__.co_filename))
    assert buffer.sample(8).rewards.device == meta


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("termination", ["recompute", "success", "keep", "never"])
def test_add_and_sample_read_nothing_from_the_device(termination, n_steps, monkeypatch):
    """Reading a tensor of the device "meta" would raise an error."""
    monkeypatch.setattr(torch_backend, "find_device", torch.device)
    monkeypatch.setattr(torch_backend, "incompatibility", lambda *arguments: None)
    buffer = counting_buffer(device="meta", buffer_size=300, termination=termination, n_steps=n_steps)
    for number in range(50):
        buffer.add_episode(counting_episode(number, 1 + number, terminated=number % 2 == 0))
    for batch_size in (8, 8, 200):
        devices = []
        buffer.sample(batch_size).map(lambda leaf, devices=devices: devices.append(leaf.device.type))
        assert devices == ["meta"] * 14
    buffer.verify()
