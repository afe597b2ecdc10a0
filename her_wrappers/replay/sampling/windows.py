"""Windows: returns of up to n steps, all of them under one goal.

A window begins with the step that a row of a batch is of. It ends at the latest where its episode does or, if
the row keeps its goal, before that is replaced by another; and it ends with the first step that terminates,
which has to be computed for a new goal. So all steps that windows may have are looked at, and then those are
added up that count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from her_wrappers.replay.batch import Batch


def as_float32(values: Any) -> Any:
    """Return an array or a tensor of floats as float32."""
    return values.astype(np.float32) if isinstance(values, np.ndarray) else values.float()


class Returns(NamedTuple):
    """What B windows brought.

    Attributes:
        lengths: (B,) int64, how many steps each had, m.
        rewards: (B,) float32, the sums of what they earned, discounted.
        terminations: (B,) bool, whether the last step terminated.
        truncations: (B,) bool, whether the episode was merely cut short there.
        discounts: (B,) float32, gamma^m, or 0 where the last step terminated.
    """

    lengths: Any
    rewards: Any
    terminations: Any
    truncations: Any
    discounts: Any


class Windows:
    """The steps of B windows, window by window, with as many for each: short ones repeat their last.

    Args:
        left: (B,) steps that each may have at most, for what is stored.
        n_steps: Steps that it may have at most, asked for.

    Attributes:
        width: Steps that each is looked at for, W; less than ``n_steps`` where no window has so many.
    """

    def __init__(self, left: np.ndarray, n_steps: int) -> None:
        self.width = min(n_steps, int(left.max()))
        order = np.arange(self.width)
        self._ahead = np.minimum(order, left[:, None] - 1)
        self._within = order[:, None] < left

    def steps(self, first: np.ndarray) -> np.ndarray:
        """Return the (B * W,) numbers of the steps, or positions of their states, from those of the first."""
        steps: np.ndarray = (first[:, None] + self._ahead).ravel()
        return steps

    def spread(self, rows: np.ndarray) -> np.ndarray:
        """Return what (..., B) windows have in common for each of their steps, (..., B * W)."""
        return rows.repeat(self.width, axis=-1)

    def returns(self, steps: Batch, gamma: float) -> Returns:
        """Return what the windows brought, of a batch of all their steps."""
        rewards, terminations, truncations = (
            self._side_by_side(column) for column in (steps.rewards, steps.terminations, steps.truncations)
        )
        powers = gamma ** self._exponents()
        counted = until_first(terminations, self._within)
        lengths = counted.sum(0)
        terminated = (terminations & counted).any(0)
        return Returns(
            lengths,
            as_float32(discounted_sum(rewards, counted, powers[:-1, None])),
            terminated,
            (truncations & counted).any(0),
            as_float32(powers[lengths] * ~terminated),
        )

    def _side_by_side(self, steps: Any) -> Any:
        """Return what (B * W,) steps have as (W, B)."""
        return np.ascontiguousarray(steps.reshape(-1, self.width).T)  # NumPy takes half the time of these

    def _exponents(self) -> Any:
        """Return the numbers from 0 to W."""
        return np.arange(self.width + 1)


MakeWindows: TypeAlias = Callable[[np.ndarray, int], Windows]
"""From how many steps are left (B,), and how many are asked for, to the windows."""


def until_first(ends: Any, within: Any) -> Any:
    """Return which steps of windows count: those within them, up to the first that ends its window.

    Takes NumPy arrays or torch tensors.

    Args:
        ends: (W, B) bool, which steps terminate.
        within: (W, B) bool, which may count.
    """
    return within & (ends.cumsum(0) <= ends)  # of those that end, only the first


def discounted_sum(rewards: Any, counted: Any, powers: Any) -> Any:
    """Return the (B,) float64 sums of those (W, B) rewards that count, times the (W, 1) float64 powers.

    Takes NumPy arrays or torch tensors.
    """
    return (rewards * counted * powers).sum(0)
