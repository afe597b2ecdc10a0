"""Devices: which torch device a buffer is to use, and how arrays get there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence


def find_device(name: str | torch.device) -> torch.device:
    """Return the device of this name, with its number.

    Raises:
        ValueError: Torch knows no such device, or cannot use it here.
    """
    try:
        probe = torch.zeros(1, dtype=torch.uint8, device=torch.device(name))
        probe.cpu()  # a device without data is none
    except (RuntimeError, AssertionError, TypeError) as error:  # the second of a torch without CUDA
        there = ", ".join(map(repr, _devices_here()))
        raise ValueError(f"device must be one that torch can use here, {there}, got {name!r}") from error
    return probe.device


def _devices_here() -> list[str]:
    here = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    return here + ["mps"] * torch.backends.mps.is_available()


def empty_bytes(shape: Sequence[int], device: torch.device) -> torch.Tensor:
    """Allocate uint8 memory on a device.

    Raises:
        MemoryError: The device has not so much.
    """
    try:
        return torch.empty(tuple(shape), dtype=torch.uint8, device=device)
    except (RuntimeError, TypeError) as error:  # torch's own; the second for more than 64 bits count
        gigabytes = float(np.prod(shape, dtype=np.float64)) / 2**30
        raise MemoryError(f"{gigabytes:.1f} GiB cannot be had on {device}") from error


def send(array: np.ndarray | torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor of an array's values on a device; on the CPU it shares the array's memory.

    To CUDA it goes through pinned memory, and nothing waits until it is there.
    """
    if device.type == "cpu" and isinstance(array, np.ndarray):
        return torch.from_numpy(array)  # in a third of the time
    return staged(array, device).to(device, non_blocking=device.type == "cuda")


def staged(array: np.ndarray | torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor of an array's values, if on the host in memory from which the device can fetch them."""
    tensor = torch.from_numpy(array) if isinstance(array, np.ndarray) else array
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor
    # In one piece, which `pin_memory` does not make: else it would be copied once more, and waited for.
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
    return pinned.copy_(tensor)
