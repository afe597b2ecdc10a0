"""Batch: the transitions that a buffer returns to a learner, and statistics of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.arguments import require_torch
from her_wrappers.replay.byte_rows import same_rows
from her_wrappers.trees import leaf_arrays, map_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from her_wrappers.trees import Tree


class Provenance(NamedTuple):
    """Sources of the rows of a batch.

    Attributes:
        episode: (B,) serial number of the first transition of each row's episode.
        goal_index: (B,) serial number of the transition that supplied the new goal; any value for original
            rows.
        component: (B,) index in ``names`` of each row's strategy.
        names: Names of the strategies; the last is that of the original rows.
    """

    episode: np.ndarray
    goal_index: np.ndarray
    component: np.ndarray
    names: tuple[str, ...]


@dataclass(eq=False)  # freezing would cost 1.5 microseconds, of the 50 that a batch takes
class Batch:
    """B transitions: NumPy arrays, or torch tensors if the buffer has a device.

    Relabeled rows come first, so a slice of a batch is not a smaller random batch. A batch owns its memory.
    Arrays may be strided views of one block of memory, but no two of them overlap.

    Attributes:
        observations: Dict of (B, ...) arrays: ``observation``, ``achieved_goal``, ``desired_goal``.
        actions: Tree of (B, ...) arrays.
        rewards: (B,) float32; with ``n_steps``, discounted sums of m rewards, 1 <= m <= ``n_steps``.
        next_observations: Like ``observations``, m steps later.
        terminations: (B,) bool, whether the last step is terminal; then targets do not bootstrap.
        truncations: (B,) bool, whether the last step truncated the episode; targets still bootstrap.
        discounts: (B,) float32, factor of the value of ``next_observations``: gamma^m, 0 where terminated.
        weights: (B,) float32 in [0, 1], weight of each row in a loss; ones without priorities.
        relabeled: (B,) bool, whether the desired goal was replaced in hindsight.
        index: (B,) int64, serial number of each transition in the buffer, which is never used again.
        provenance: Source of `episode`, `goal_index` and `strategy`, as NumPy arrays on every device. None in
            an argument of ``reward_fn``, where these properties raise ValueError.
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

    def __repr__(self) -> str:
        return f"<Batch transitions={len(self)} relabeled={int(self.relabeled.sum())}>"

    @property
    def episode(self) -> np.ndarray:
        """Serial number of the first transition of each row's episode, (B,) int64."""
        return self._require_provenance().episode.copy()

    @property
    def goal_index(self) -> np.ndarray:
        """Serial number of the transition that supplied the new goal, (B,) int64; -1 for original rows.

        This transition achieved the goal or, in rows of ``"desired"``, had it as its desired goal.
        """
        origin = self._require_provenance()
        return np.where(origin.component < len(origin.names) - 1, origin.goal_index, -1)

    @property
    def strategy(self) -> np.ndarray:
        """Name of the strategy that chose each row's goal, (B,) str; ``"original"`` for original rows."""
        origin = self._require_provenance()
        strategy: np.ndarray = np.array(origin.names)[origin.component]
        return strategy

    def _require_provenance(self) -> Provenance:
        if self.provenance is None:
            raise ValueError("a batch must be sampled from a buffer to have episode, goal_index and strategy")
        return self.provenance

    def to_torch(self, device: str | torch.device = "cpu") -> Batch:
        """Return the batch as torch tensors of the same dtypes.

        Args:
            device: Device of the tensors. On the CPU they share the arrays' memory; copies to CUDA go through
                pinned memory and are asynchronous.

        Raises:
            ImportError: torch is not installed.
            RuntimeError: ``device`` is unknown or not available.
            TypeError: torch does not support a dtype of the batch.
        """
        require_torch("to_torch", otherwise="use the arrays")
        from her_wrappers.replay.torch_records import to_tensor  # noqa: PLC0415 - imports torch

        return self.map(to_tensor(device, are_arrays=isinstance(self.rewards, np.ndarray)))

    def to_numpy(self) -> Batch:
        """Return the batch as NumPy arrays, which share the memory of CPU tensors."""
        return self.map(lambda values: values if isinstance(values, np.ndarray) else values.cpu().numpy())

    def map(self, function: Callable[[Any], Any]) -> Batch:
        """Return a new batch with a function applied to each array or tensor, except to ``provenance``.

        Args:
            function: Function from an array or tensor to its replacement.
        """
        actions = self.actions
        return Batch(
            map_tree(function, self.observations),
            map_tree(function, actions) if isinstance(actions, dict | tuple) else function(actions),
            function(self.rewards),
            map_tree(function, self.next_observations),
            function(self.terminations),
            function(self.truncations),
            function(self.discounts),
            function(self.weights),
            function(self.relabeled),
            function(self.index),
            self.provenance,
        )


def zero_terminal_discounts(discounts: Any, terminations: Any) -> None:
    """Set the discounts of steps that terminate to 0, in place.

    Args:
        discounts: (B,) float32 array or torch tensor.
        terminations: (B,) bool, of the same kind.
    """
    if isinstance(discounts, np.ndarray):
        discounts[terminations] = 0  # a product takes longer
    else:
        discounts.masked_fill_(terminations, 0)


@dataclass(frozen=True)
class Statistics:
    """Contents of a buffer, and shares and means over the rows of a batch; NaN for an empty set of rows.

    Attributes:
        num_transitions: Number of stored transitions.
        num_episodes: Number of stored episodes.
        mean_length: Mean number of steps of an episode.
        nbytes: Allocated memory in bytes.
        relabeled_share: Share of relabeled rows.
        relabeled_reward: Mean reward of the relabeled rows.
        original_reward: Mean reward of the original rows.
        terminated_share: Share of relabeled rows that terminate.
        trivial_share: Share of relabeled rows whose new goal was already achieved before the step.
        mean_ahead: Mean difference, over the relabeled rows, of the serial numbers of the transition that
            achieved the new goal and of the row's own transition; 0 is the row's own transition. Rows of
            ``"desired"`` are left out.
    """

    num_transitions: int
    num_episodes: int
    mean_length: float
    nbytes: int
    relabeled_share: float
    relabeled_reward: float
    original_reward: float
    terminated_share: float
    trivial_share: float
    mean_ahead: float


def compute_statistics(batch: Batch, num_transitions: int, num_episodes: int, nbytes: int) -> Statistics:
    """Return the statistics of a buffer and of a batch from it.

    Args:
        batch: Batch of the buffer, as NumPy arrays.
        num_transitions: Number of stored transitions.
        num_episodes: Number of stored episodes, at least 1.
        nbytes: Memory of the buffer in bytes.
    """
    rows = batch.relabeled
    with_achieved = rows & (batch.strategy != "desired")  # no transition achieved those goals
    achieved, desired = (leaf_arrays(batch.observations[key]) for key in ("achieved_goal", "desired_goal"))
    return Statistics(
        num_transitions=num_transitions,
        num_episodes=num_episodes,
        mean_length=num_transitions / num_episodes,
        nbytes=nbytes,
        relabeled_share=float(rows.mean()),
        relabeled_reward=_mean(batch.rewards[rows]),
        original_reward=_mean(batch.rewards[~rows]),
        terminated_share=_mean(batch.terminations[rows]),
        trivial_share=_mean(same_rows(achieved, desired)[rows]),
        mean_ahead=_mean((batch.goal_index - batch.index)[with_achieved]),
    )


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
