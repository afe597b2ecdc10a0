"""Returns of up to n steps, all of them under one goal.

The window of a sampled row begins with its step and has at most n steps. It ends early with the episode or
with the first step that terminates; the window of an original row also ends before the goal changes. Since
terminations under a new goal have to be computed, all steps that a window may contain are relabeled before
rewards are summed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from her_wrappers.replay.batch import Batch


class NStepReturns(NamedTuple):
    """Returns of B windows.

    Attributes:
        lengths: (B,) int64, number of steps in each window, m.
        rewards: (B,) float32, discounted sums of the rewards.
        terminations: (B,) bool, whether the last step terminated.
        truncations: (B,) bool, whether the last step truncated the episode.
        discounts: (B,) float32, gamma^m, or 0 where the last step terminated.
    """

    lengths: Any
    rewards: Any
    terminations: Any
    truncations: Any
    discounts: Any


class NStepWindows:
    """The steps of B windows, each padded to the longest one by repeating the last step it may contain.

    Args:
        steps_left: (B,) number of stored steps that each window may contain.
        n_steps: Number of steps that a window has at most.

    Attributes:
        width: Number of steps per window with padding, W.
    """

    def __init__(self, steps_left: np.ndarray, n_steps: int) -> None:
        self.width = min(n_steps, int(steps_left.max()))
        order = np.arange(self.width)
        self._ahead: Any = np.minimum(order, steps_left[:, None] - 1)
        self._within: Any = order[:, None] < steps_left

    def steps(self, first: Any) -> Any:
        """Return the (B * W,) serial numbers (or offsets) of all steps, given those of the first, (B,)."""
        return (first[:, None] + self._ahead).ravel()

    def repeat_rows(self, rows: Any) -> Any:
        """Repeat each of (..., B) rows for all steps of its window: (..., B * W)."""
        return rows.repeat(self.width, axis=-1)

    def returns(self, steps: Batch, gamma: float) -> NStepReturns:
        """Compute the n-step returns of the windows.

        Args:
            steps: Batch of all B * W steps of the windows, in the order of `steps`.
            gamma: Discount factor.

        Raises:
            ValueError: A sum of rewards is not finite as float32.
        """
        rewards, terminations, truncations = map(
            self._by_step, (steps.rewards, steps.terminations, steps.truncations)
        )
        powers = gamma ** self._exponents()
        counted = mask_through_first_done(terminations, self._within)
        lengths = counted.sum(0)
        terminated = (terminations & counted).any(0)
        sums = self._as_float32((rewards * counted * powers[:-1, None]).sum(0))
        self._require_finite(sums)
        return NStepReturns(
            lengths,
            sums,
            terminated,
            (truncations & counted).any(0),
            self._as_float32(powers[lengths] * ~terminated),
        )

    def _by_step(self, values: Any) -> Any:
        """Return (B * W,) values as (W, B)."""
        return np.ascontiguousarray(
            values.reshape(-1, self.width).T
        )  # NumPy sums contiguous columns in half the time

    def _exponents(self) -> Any:
        """Return the integers from 0 to W."""
        return np.arange(self.width + 1)

    def _require_finite(self, sums: Any) -> None:
        """Raise ValueError if a sum of rewards is too large for float32."""
        finite = np.isfinite(sums)
        if not finite.all():
            raise ValueError(
                f"the sum of n_steps rewards must be finite as float32, got {sums[~finite][0]} at row "
                f"{finite.argmin()}; scale the rewards down, or use fewer n_steps"
            )

    def _as_float32(self, values: Any) -> Any:
        with np.errstate(over="ignore"):  # too large sums become infinite, and are rejected
            return values.astype(np.float32)


def mask_through_first_done(dones: Any, within: Any) -> Any:
    """Return which steps belong to their windows, (W, B) bool: those up to the first step that terminates.

    The arguments are NumPy arrays or torch tensors.

    Args:
        dones: (W, B) bool, which steps terminate.
        within: (W, B) bool, which steps are not padding.
    """
    return within & (dones.cumsum(0) <= dones)  # False after the first step that terminates


def window_lengths(discounts: np.ndarray, gamma: float) -> np.ndarray:
    """Return the number of steps m of each n-step window, from ``discounts`` of a batch.

    Args:
        discounts: (B,) discount factors: gamma^m, or 0 where the next value does not count.
        gamma: Discount factor of one step, in [0, 1].

    Returns:
        (B,) int64; 1 where the discount does not depend on m: where it is 0, or if ``gamma`` is 0 or 1.
    """
    lengths = np.ones(len(discounts))
    if 0 < gamma < 1:
        np.log(discounts, out=lengths, where=discounts > 0, dtype=np.float64)
        lengths[discounts > 0] /= np.log(gamma)
    return np.rint(lengths).astype(np.int64)
