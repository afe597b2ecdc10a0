"""Batch: what a buffer hands to a learner."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.replay.arrays import require_torch
from her_wrappers.trees import map_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from her_wrappers.trees import Tree


class Provenance(NamedTuple):
    """Where the rows of a batch come from.

    Attributes:
        episode: (B,) number of the first transition of each row's episode.
        goal_index: (B,) number of the transition that achieved the new goal; anything where there is none.
        part: (B,) which of ``names`` each row is of.
        names: Names of the strategies; the last is of what is not relabeled.
    """

    episode: np.ndarray
    goal_index: np.ndarray
    part: np.ndarray
    names: tuple[str, ...]


@dataclass(eq=False)  # to freeze it would cost 1.5 microseconds, of the 50 that a batch takes
class Batch:
    """B transitions, in memory of their own: NumPy arrays, or torch tensors if the buffer has a device.

    The order of the rows means something (relabeled ones come first): do not slice a batch to make a smaller
    one. Arrays may be strided views of one block of memory; no two of them overlap.

    Attributes:
        observations: Dict of (B, ...) arrays: ``observation``, ``achieved_goal``, ``desired_goal``.
        actions: Tree of (B, ...) arrays.
        rewards: (B,) float32; with ``n_steps``, discounted sums of those of m steps, 1 <= m <= ``n_steps``.
        next_observations: Like ``observations``, m steps later.
        terminations: (B,) bool, whether the task ended at the last step: do not bootstrap there.
        truncations: (B,) bool, whether the episode was merely cut short there: do bootstrap.
        discounts: (B,) float32, what the value of ``next_observations`` counts: gamma^m, 0 where terminated.
        weights: (B,) float32 in [0, 1], by which each row counts in a loss; ones without priorities.
        relabeled: (B,) bool, whether the desired goal was replaced in hindsight.
        index: (B,) int64, a number that each stored transition keeps and no other ever gets.
        provenance: What `episode`, `goal_index` and `strategy` are worked out from; NumPy arrays always.
    """

    observations: dict[str, Tree]
    actions: Tree
    rewards: Any
    next_observations: dict[str, Tree]
    terminations: Any
    truncations: Any
    discounts: Any
    weights: Any
    relabeled: Any
    index: Any
    provenance: Provenance | None = field(default=None, repr=False)

    def __len__(self) -> int:
        """Return the number of transitions, B."""
        return len(self.rewards)

    @property
    def episode(self) -> np.ndarray:
        """Index of the first transition of each row's episode, (B,) int64: a number for the episode."""
        return self._from().episode.copy()

    @property
    def goal_index(self) -> np.ndarray:
        """Index of the transition that achieved each row's new goal, (B,) int64; -1 for original rows."""
        origin = self._from()
        return np.where(origin.part < len(origin.names) - 1, origin.goal_index, -1)

    @property
    def strategy(self) -> np.ndarray:
        """Name of the strategy that chose each row's goal, (B,) str; ``"original"`` where none did."""
        strategy: np.ndarray = np.array(self._from().names)[self._from().part]
        return strategy

    def _from(self) -> Provenance:
        if self.provenance is None:
            raise ValueError("a batch must be sampled from a buffer to know episode, goal_index and strategy")
        return self.provenance

    def to_torch(self, device: str | torch.device = "cpu") -> Batch:
        """Return the batch as torch tensors of the same dtypes.

        Args:
            device: Where the tensors go. On the CPU they share the arrays' memory; to CUDA they go through
                pinned memory, and nothing waits until they are there.

        Raises:
            ImportError: There is no torch.
            RuntimeError: Torch knows no such device, or cannot use it here.
            TypeError: Torch does not have a dtype of the batch.
        """
        require_torch("to_torch", otherwise="use the arrays")
        import torch  # noqa: PLC0415 - an optional dependency

        from her_wrappers.replay.transfer import send  # noqa: PLC0415 - imports torch

        there = torch.device(device)
        return self.map(lambda values: send(values, there))

    def to_numpy(self) -> Batch:
        """Return the batch as NumPy arrays; those of tensors on the CPU share their memory."""
        return self.map(lambda values: values if isinstance(values, np.ndarray) else values.cpu().numpy())

    def map(self, function: Callable[[Any], Any]) -> Batch:
        """Return the batch with a function applied to each array, or tensor."""
        return replace(
            self,
            **{
                part.name: map_tree(function, getattr(self, part.name))
                for part in fields(self)
                if part.name != "provenance"
            },
        )
