"""Transfer: how arrays get to a torch device."""

from __future__ import annotations

import numpy as np
import torch


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
