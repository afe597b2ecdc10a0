"""Batch: sampled transitions for a learner. Statistics: numbers about a buffer and one of its batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import numpy as np

from her_wrappers.data.trees import Tree, map_tree
from her_wrappers.support.arguments import require_torch

if TYPE_CHECKING:
    import torch
    from typing_extensions import TypeVar

    ArrayT = TypeVar("ArrayT", bound=np.ndarray | torch.Tensor, default=np.ndarray)
else:
    from typing import TypeVar

    ArrayT = TypeVar("ArrayT")


class Provenance(NamedTuple):
    """Episode, source of the new goal, and goal selection strategy of each row of a batch."""

    episode: Any  # (B,) number of the first step of each row's episode
    goal_index: Any  # (B,) number of the step that supplied the new goal; arbitrary for original rows
    component: Any  # (B,) index in `names` of each row's strategy
    names: tuple[str, ...]  # names of the strategies; the last is that of the original rows
    num_demonstrations: int = 0  # number of steps of demonstrations
    lane: Any = None  # (B,) number of each row's environment; None unless from a `DeviceReplayBuffer`

    def map(self, function: Callable[[Any], Any]) -> Provenance:
        """Return a copy with ``function`` applied to each array."""
        arrays = {name: function(x) for name, x in self._asdict().items() if hasattr(x, "shape")}
        return self._replace(**arrays)


@dataclass(eq=False)  # freezing would cost 1.5 microseconds, of the 50 that a batch takes
class Batch(Generic[ArrayT]):
    """A batch of B transitions, as NumPy arrays, or as torch tensors if the buffer has a device.

    Relabeled rows come first, so a slice of a batch is not a random sample. A batch shares no memory with the
    buffer. For type checkers, ``sample`` returns a batch of arrays; if the buffer has a device,
    ``batch.to_torch(buffer.device)`` has the type ``Batch[torch.Tensor]``, and copies nothing.

    Attributes:
        observations: Dict of (B, ...) arrays: ``observation``, ``achieved_goal``, ``desired_goal``.
        actions: Tree of (B, ...) arrays.
        rewards: (B,) float32; with ``n_steps``, discounted sums of m rewards, 1 <= m <= ``n_steps``.
        next_observations: Like ``observations``, but m steps later; without ``n_steps``, m is 1.
        terminations: (B,) bool, whether the last of the m steps is terminal; targets must not bootstrap then.
        truncations: (B,) bool, whether the last of the m steps truncated the episode; targets bootstrap then.
        discounts: (B,) float32, factor of the value of ``next_observations``: gamma^m, or 0 if terminated.
        weights: (B,) float32 in [0, 1], importance weight of each row in a loss; 1 without priorities.
        relabeled: (B,) bool, whether the desired goal was replaced in hindsight.
        index: (B,) int64, step number of each transition. The buffer never uses a step number twice. With N
            steps of demonstrations, their step numbers are 0 to N - 1, and those of other steps begin at N.
        provenance: Arrays (tensors if a `DeviceReplayBuffer` made the batch) from which the properties
            `episode`, `goal_index`, `strategy` and `lane` are computed. None in the batch that ``reward_fn``
            gets, where these properties raise ValueError.
    """

    observations: dict[str, Tree]
    actions: Tree
    rewards: ArrayT
    next_observations: dict[str, Tree]
    terminations: ArrayT
    truncations: ArrayT
    discounts: ArrayT
    weights: ArrayT
    relabeled: ArrayT
    index: ArrayT
    provenance: Provenance | None = field(default=None, repr=False)

    def __len__(self) -> int:
        """Return the number of transitions, B."""
        return len(self.rewards)

    def __repr__(self) -> str:
        return f"<Batch transitions={len(self)} relabeled={int(self.relabeled.sum())}>"

    @property
    def is_demonstration(self) -> Any:
        """Whether each row is a demonstration, (B,) bool: ``index < len(buffer.demonstrations)``."""
        return self.index < (0 if self.provenance is None else self.provenance.num_demonstrations)

    @property
    def episode(self) -> Any:
        """Identifier of each row's episode, (B,) int64: the step number of the episode's first transition."""
        return self._require_provenance().episode + 0  # a copy

    @property
    def goal_index(self) -> Any:
        """Step number of the transition that achieved each row's new goal, (B,) int64; -1 for original rows.

        In rows of the strategy ``"desired"``, the new goal is the desired goal of this transition.
        """
        origin = self._require_provenance()
        return (origin.goal_index + 1) * (origin.component < len(origin.names) - 1) - 1

    @property
    def strategy(self) -> np.ndarray:
        """Name of the strategy that chose each row's goal, (B,) str; ``"original"`` for original rows."""
        origin = self._require_provenance().map(_to_numpy)
        strategy: np.ndarray = np.array(origin.names)[origin.component]
        return strategy

    @property
    def lane(self) -> Any:
        """Number of each row's environment, (B,) int64, in batches of a `DeviceReplayBuffer`.

        With N environments, numbered 0 to N - 1, all demonstrations have the number N.

        Raises:
            ValueError: The batch is not a result of `DeviceReplayBuffer.sample`.
        """
        lane = self._require_provenance().lane
        if lane is None:
            raise ValueError("'lane' exists only in batches of a DeviceReplayBuffer")
        return lane + 0

    def _require_provenance(self) -> Provenance:
        if self.provenance is None:
            raise ValueError(
                "'episode', 'goal_index', 'strategy' and 'lane' exist only in batches that sample() "
                "returned, not in the batch that reward_fn gets"
            )
        return self.provenance

    def to_torch(self, device: str | torch.device = "cpu") -> Batch[torch.Tensor]:
        """Return the batch as torch tensors of the same dtypes.

        Args:
            device: Device of the tensors. On the CPU, the tensors share the memory of the arrays. Copies to
                CUDA go through pinned memory and are asynchronous.

        Raises:
            ImportError: torch is not installed.
            RuntimeError: ``device`` is unknown or not available.
            TypeError: torch does not support a dtype of the batch.
        """
        require_torch("to_torch", otherwise="use the arrays")
        import torch  # noqa: PLC0415 - an optional dependency

        from her_wrappers.replay.tensors import to_tensor  # noqa: PLC0415

        target = torch.device(device)
        return self.map(lambda values: to_tensor(values, target))

    def to_numpy(self) -> Batch:
        """Return the batch as NumPy arrays. They share the memory of tensors that are on the CPU."""
        batch = self.map(_to_numpy)
        batch.provenance = self.provenance and self.provenance.map(_to_numpy)
        return batch

    def map(self, function: Callable[[Any], Any]) -> Batch[Any]:
        """Return a new batch with ``function`` applied to each array or tensor except ``provenance``.

        Args:
            function: Function from an array or tensor to its replacement.
        """
        columns = [getattr(self, name) for name in self.__match_args__[:-1]]  # all except provenance
        batch = Batch(*[function(x) if type(x) is np.ndarray else map_tree(function, x) for x in columns])
        batch.provenance = self.provenance
        return batch


def window_lengths(discounts: np.ndarray, gamma: float) -> np.ndarray:
    """Return the number of steps m of each n-step window, (B,) int64, from its discount, which is gamma^m.

    If a discount is 0, or ``gamma`` is 0 or 1, the discount does not determine m, and the result is 1.
    """
    lengths = np.ones(len(discounts))
    if 0 < gamma < 1:
        np.log(discounts, out=lengths, where=discounts > 0, dtype=np.float64)
        lengths[discounts > 0] /= np.log(gamma)
    return np.rint(lengths).astype(np.int64)


def _to_numpy(values: Any) -> np.ndarray:
    array: np.ndarray = values if isinstance(values, np.ndarray) else values.cpu().numpy()
    return array


@dataclass(frozen=True)
class Statistics:
    """Statistics of a buffer and of a batch sampled from it, without demonstrations.

    A mean or share over the relabeled or the original rows is NaN if the batch has no such rows.

    Attributes:
        num_transitions: Number of stored transitions.
        num_episodes: Number of stored episodes.
        mean_length: Mean number of steps of an episode.
        nbytes: Allocated memory in bytes.
        relabeled_share: Share of relabeled rows among all rows.
        relabeled_reward: Mean reward of the relabeled rows.
        original_reward: Mean reward of the original rows.
        terminated_share: Share of terminated rows among the relabeled rows.
        trivial_share: Share of the relabeled rows whose new goal g is trivial: the goal ag_t, achieved before
            the step, gets the reward of success, ``compute_reward(ag_t, g) == compute_reward(g, g)``.
        mean_ahead: Mean, over the relabeled rows, of the number of steps from the row's transition to the
            transition that achieved its new goal. Rows of the strategy ``"desired"`` are left out.
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


def statistics_of(
    batch: Batch, ahead: Any, is_trivial: Any, *, num_transitions: int, num_episodes: int, nbytes: int
) -> Statistics:
    """Return statistics; ``ahead``, (B,), are steps to the new goal, ``is_trivial`` is of relabeled rows."""
    rows = batch.relabeled
    means = (
        rows,
        batch.rewards[rows],
        batch.rewards[~rows],
        batch.terminations[rows],
        is_trivial,
        ahead[rows & (batch.strategy != "desired")],  # no transition achieved desired goals
    )
    numbers: Any = (float(each.mean()) if len(each) else float("nan") for each in means)
    return Statistics(num_transitions, num_episodes, num_transitions / num_episodes, nbytes, *numbers)
