"""Devices: which torch device a buffer is to use, and memory there."""

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
