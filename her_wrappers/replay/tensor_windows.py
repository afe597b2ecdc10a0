"""TensorWindows: returns of up to n steps, added up on a torch device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from her_wrappers.replay.devices import send
from her_wrappers.replay.tensor_records import TensorRecords
from her_wrappers.replay.windows import Returns, Windows, discounted_sum, until_first

if TYPE_CHECKING:
    import numpy as np

    from her_wrappers.replay.batch import Batch


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

    def returns(self, steps: Batch, gamma: float) -> Returns:
        """Return what the windows brought, of a batch of all their steps."""
        rewards, terminations, truncations = (
            column.reshape(-1, self.width).T
            for column in (steps.rewards, steps.terminations, steps.truncations)
        )
        powers = gamma ** torch.arange(self.width + 1, dtype=torch.float64, device=rewards.device)
        counted = until_first(terminations, self._within)
        lengths = counted.sum(0)
        terminated = (terminations & counted).any(0)
        return Returns(
            lengths,
            discounted_sum(rewards, counted, powers[:-1, None]).float(),
            terminated,
            (truncations & counted).any(0),
            (powers[lengths] * ~terminated).float(),
        )
