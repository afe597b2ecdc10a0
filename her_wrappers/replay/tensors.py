"""Torch devices, and conversions between arrays and tensors."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

import numpy as np
import torch

from her_wrappers.data.trees import leaf_arrays, map_tree
from her_wrappers.goals.functions import GoalFunction
from her_wrappers.support.arguments import require_result


def find_device(name: str | torch.device) -> torch.device:
    """Return the torch device ``name`` with its index, as in ``cuda:0``, or raise ValueError if missing."""
    try:
        probe = torch.zeros(1, dtype=torch.uint8, device=torch.device(name))
        probe.cpu()  # fails for a device that holds no data, such as "meta"
    except (RuntimeError, AssertionError, TypeError) as error:  # AssertionError: torch without CUDA
        names = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise ValueError(f"device must be a device of this machine, such as {names}, got {name!r}") from error
    return probe.device


def is_capturing(device: torch.device) -> bool:
    """Return whether a CUDA graph is being captured on ``device``; no call may wait for the device then."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def torch_dtype(name: str, dtype: np.dtype[Any]) -> torch.dtype:
    """Return torch's dtype for the NumPy dtype of an array ``name``; raise TypeError if torch lacks it."""
    found = getattr(torch, "bool" if dtype.kind == "b" else dtype.name, None)
    if not isinstance(found, torch.dtype) or not dtype.isnative:
        raise TypeError(f"{name} has dtype {dtype}, which torch does not support; leave device= out")
    return found


def to_tensor(values: np.ndarray | torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return ``values`` as a tensor on a device, as `Batch.to_torch` describes."""
    tensor = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
    if device.type == "cpu" and tensor.device.type == "cpu":
        return tensor  # a third of the time of `to`
    if device.type == "cuda" and tensor.device.type == "cpu":
        # `Tensor.pin_memory` does not make the memory contiguous, and a synchronous copy would follow.
        pinned = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
        tensor = pinned.copy_(tensor)
    return tensor.to(device, non_blocking=device.type == "cuda")


def call_unchanged(name: str, function: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the result of the user's function; raise ValueError if it changed a tensor in place."""
    trees = [vars(each) if is_dataclass(each) else each for each in arguments]  # of a `Batch`
    found: list[Any] = leaf_arrays(tuple(trees))
    leaves = [each for each in found if isinstance(each, torch.Tensor) and not each.is_inference()]
    before = [leaf._version for leaf in leaves]  # noqa: SLF001 - increases with each change in place
    result = function(*arguments)
    if before != [leaf._version for leaf in leaves]:  # noqa: SLF001
        raise ValueError(
            f"{name} changed an argument, such as achieved_goal, in place; compute a new tensor: a - d, not "
            "a.sub_(d)"
        )
    require_result(name, result, "a tensor of (B,) values")
    return result


def on_tensors(function: GoalFunction) -> GoalFunction:
    """Make a goal function of tensors and a dict of infos from one of arrays and a list of infos."""

    def converted(achieved_goal: Any, desired_goal: Any, info: Any) -> torch.Tensor:
        devices: list[torch.device] = []

        def to_numpy(leaf: torch.Tensor) -> np.ndarray:
            devices.append(leaf.device)
            array: np.ndarray = leaf.cpu().numpy()
            return array

        achieved, desired = (map_tree(to_numpy, each) for each in (achieved_goal, desired_goal))
        columns = {key: to_numpy(values) for key, values in info.items()}
        count = len(leaf_arrays(achieved)[0])
        rows = [{key: values[i] for key, values in columns.items()} for i in range(count)]
        return torch.as_tensor(np.asarray(function(achieved, desired, rows)), device=devices[0])

    return converted
