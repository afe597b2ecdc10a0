"""Batch: what a buffer hands to a learner."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from her_wrappers.trees import map_tree

if TYPE_CHECKING:
    import numpy as np
    import torch

    from her_wrappers.trees import Tree


@dataclass(frozen=True, eq=False)
class Batch:
    """B transitions, in memory of their own.

    The order of the rows means something (relabeled ones come first): do not slice a batch to make a smaller
    one. Arrays may be strided views of one block of memory; no two of them overlap.

    Attributes:
        observations: Dict of (B, ...) arrays: ``observation``, ``achieved_goal``, ``desired_goal``.
        actions: Tree of (B, ...) arrays.
        rewards: (B,) float32.
        next_observations: Like ``observations``, one step later.
        terminations: (B,) bool, whether the task ended at the step: do not bootstrap there.
        truncations: (B,) bool, whether the episode was merely cut short there: do bootstrap.
        relabeled: (B,) bool, whether the desired goal was replaced in hindsight.
        index: (B,) int64, a number that each stored transition keeps and no other ever gets.
    """

    observations: dict[str, Tree]
    actions: Tree
    rewards: Any
    next_observations: dict[str, Tree]
    terminations: Any
    truncations: Any
    relabeled: Any
    index: Any

    def __len__(self) -> int:
        """Return the number of transitions, B."""
        return len(self.rewards)

    def to_torch(self, device: str | torch.device = "cpu") -> Batch:
        """Return the batch as torch tensors of the same dtypes.

        Args:
            device: Where the tensors go. On the CPU they share the arrays' memory.
        """
        import torch  # noqa: PLC0415 - an optional dependency

        def to_tensor(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array).to(device)

        return replace(
            self, **{part.name: map_tree(to_tensor, getattr(self, part.name)) for part in fields(self)}
        )
