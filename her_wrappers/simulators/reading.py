"""Read values of simulators: paths of keys, and nested dicts of tensors."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from her_wrappers.data.trees import map_tree

KeyPath: TypeAlias = str | tuple[str, ...]
"""Keys of nested dicts: ``"key"``, ``"key.key"``, a tuple of keys, or ``()`` for the whole dict."""


def find(values: Any, path: KeyPath) -> Any:
    """Return the value at a path of keys in nested dicts or TensorDicts, or None if a key is missing."""
    for key in path.split(".") if isinstance(path, str) else path:
        if not hasattr(values, "keys") or key not in list(values.keys()):
            return None
        values = values[key]
    return values


def keys_of(values: Any) -> str:
    """Return the keys of a dict, or the type of another value, for messages."""
    return str(list(values.keys())) if hasattr(values, "keys") else type(values).__name__


def as_tensors(value: Any, device: torch.device | None = None) -> Any:
    """Return nested dicts of arrays as tensors; arrays are copied, since simulators reuse their memory."""
    if hasattr(value, "keys"):
        return {str(key): as_tensors(value[key], device) for key in list(value.keys())}
    if isinstance(value, torch.Tensor):
        tensor = value.detach().clone()
    elif hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):  # JAX
        tensor = from_dlpack(value).clone()
    else:
        tensor = torch.tensor(np.array(value))
    return tensor if device is None else tensor.to(device, non_blocking=True)


def choose(mask: torch.Tensor, chosen: Any, others: Any) -> Any:
    """Return the rows of ``chosen`` where ``mask``, (N,) bool, is True, else those of ``others``."""

    def leaf(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return torch.where(mask.reshape(-1, *[1] * (other.ndim - 1)), one.to(other.dtype), other)

    return map_tree(leaf, chosen, others)
