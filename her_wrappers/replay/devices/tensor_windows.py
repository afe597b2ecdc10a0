"""TensorWindows: returns of up to n steps, added up on a torch device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from her_wrappers.replay.devices.tensor_records import TensorRecords
from her_wrappers.replay.sampling.windows import Windows
from her_wrappers.replay.transfer import send

if TYPE_CHECKING:
    import numpy as np


class TensorWindows(Windows):
    """`Windows` of tensors.

    Args:
        left: (B,) steps that each may have at most, on the host, which has to know how wide they are.
        n_steps: Steps that it may have at most, asked for.
        device: Where the steps are.
    """

    def __init__(self, left: np.ndarray, n_steps: int, device: torch.device) -> None:
        self.width = min(n_steps, int(left.max()))
        there, order = send(left, device), torch.arange(self.width, device=device)
        self._ahead: Any = torch.minimum(order, there[:, None] - 1)
        self._within: Any = order[:, None] < there

    def spread(self, rows: Any) -> Any:
        """Return what (..., B) windows have in common for each of their steps, (..., B * W)."""
        if isinstance(rows, TensorRecords):
            return rows.spread(self.width)
        return rows.repeat_interleave(self.width, dim=-1)

    def _side_by_side(self, steps: Any) -> Any:
        return steps.reshape(-1, self.width).T

    def _exponents(self) -> Any:
        return torch.arange(self.width + 1, dtype=torch.float64, device=self._within.device)
