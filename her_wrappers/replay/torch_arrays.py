"""TorchArrays: the operations of `NumPyArrays` for tensors on a device, and conversions to tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from her_wrappers.replay.arrays import NumPyArrays


class TorchArrays(NumPyArrays):
    """Operations on torch tensors on a device."""

    is_torch = True
    copy = staticmethod(torch.Tensor.clone)
    stack = staticmethod(torch.stack)
    concatenate = staticmethod(torch.cat)
    fill = staticmethod(torch.Tensor.masked_fill_)
    repeat = staticmethod(torch.Tensor.repeat_interleave)
    float32 = staticmethod(torch.Tensor.float)
    to_numpy = staticmethod(lambda values: values.cpu().numpy())  # waits for the device

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def take(self, matrix: Any, rows: Any, *_: Any) -> Any:
        """Return copies of the rows with indices ``rows``; indices beyond the ends wrap around."""
        flat = torch.remainder(rows.reshape(-1), len(matrix))
        return matrix.index_select(0, flat).view(*rows.shape, *matrix.shape[1:])

    def zeros(self, shape: Any, dtype: np.dtype[Any]) -> Any:
        """Return zeros; raise MemoryError if the device does not have enough memory."""
        try:
            with torch.inference_mode(False):  # the tensor can be written in inference mode and outside
                return torch.zeros(shape, dtype=torch_dtype("a matrix", dtype), device=self.device)
        except RuntimeError as error:
            gigabytes = math.prod(shape) * dtype.itemsize / 2**30
            need = f"the replay buffer cannot allocate {gigabytes:.1f} GiB on {self.device}"
            raise MemoryError(f"{need}; use a smaller buffer_size or batch_size") from error

    def assign(self, matrix: Any, index: tuple[Any, ...], values: np.ndarray) -> None:
        """Write an array to ``matrix[index]``; ``index`` is (rows,) or (rows, columns)."""
        rows = self.from_numpy(index[0]) if isinstance(index[0], np.ndarray) else index[0]
        matrix[rows, *index[1:]] = self.from_numpy(np.ascontiguousarray(values)).to(matrix.dtype)

    def from_numpy(self, array: np.ndarray) -> Any:
        """Return an array as a tensor on the device."""
        with torch.inference_mode(False):
            return to_tensor(array, self.device)


def find_device(name: str | torch.device) -> torch.device:
    """Return the torch device ``name`` with its number, as in ``cuda:0``, or raise ValueError."""
    try:
        probe = torch.zeros(1, dtype=torch.uint8, device=torch.device(name))
        probe.cpu()  # fails for a device that holds no data, such as "meta"
    except (RuntimeError, AssertionError, TypeError) as error:  # AssertionError: torch without CUDA
        names = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise ValueError(f"device must be a device of this machine, such as {names}, got {name!r}") from error
    return probe.device


def torch_dtype(name: str, dtype: np.dtype[Any]) -> torch.dtype:
    """Return torch's dtype for the NumPy dtype of an array ``name``; raise TypeError if torch lacks it."""
    found = getattr(torch, "bool" if dtype.kind == "b" else dtype.name, None)
    if not isinstance(found, torch.dtype) or not dtype.isnative:
        raise TypeError(f"{name} has dtype {dtype}, which torch does not support; leave device= out")
    return found


def to_tensor(values: np.ndarray | torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return an array or a tensor as a tensor on a device.

    On the CPU, the result shares the memory of ``values``. Copies to CUDA go through pinned memory and are
    asynchronous.
    """
    tensor = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
    if device.type == "cpu" and tensor.device.type == "cpu":
        return tensor  # a third of the time of `to`
    if device.type == "cuda" and tensor.device.type == "cpu":
        # `Tensor.pin_memory` does not make the memory contiguous, and a synchronous copy would follow.
        pinned = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
        tensor = pinned.copy_(tensor)
    return tensor.to(device, non_blocking=device.type == "cuda")
