"""n-step returns: sums of up to n discounted rewards, all computed for the same goal.

The window of a sampled row is the sequence of steps whose rewards are summed. It has n steps, or fewer if the
episode ends, a step terminates, or, in a row that is not relabeled, the desired goal changes. In a relabeled
row, the new goal decides which step terminates. So all steps that a window may contain are relabeled first,
and rewards are summed afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from her_wrappers.replay.batch import Batch


class NStepReturns(NamedTuple):
    """The n-step returns of B windows, as (B,) arrays."""

    lengths: np.ndarray  # number m of steps whose rewards are summed
    rewards: np.ndarray  # discounted sum of m rewards
    terminations: np.ndarray  # whether the last of the m steps is terminal
    truncations: np.ndarray  # whether the last of the m steps truncated the episode
    discounts: np.ndarray  # gamma^m, or 0 if terminated


def n_step_returns(steps: Batch, steps_left: np.ndarray, gamma: float) -> NStepReturns:
    """Return the n-step returns of B windows.

    ``steps_left``, (B,), is the number of steps of each window if no step terminates; W is the largest of
    these numbers. ``steps`` has W steps for each window, window after window. Steps after the end of a window
    are ignored.
    """
    order = np.arange(int(steps_left.max()))
    powers = gamma ** np.arange(len(order) + 1.0)
    rewards, terminations, truncations = (  # NumPy sums contiguous columns in half the time
        np.ascontiguousarray(each.reshape(-1, len(order)).T)
        for each in (steps.rewards, steps.terminations, steps.truncations)
    )
    # False after the first step that terminates.
    counted = (order[:, None] < steps_left) & (terminations.cumsum(0) <= terminations)
    lengths = counted.sum(0)
    terminated, truncated = (np.asarray((each & counted).any(0)) for each in (terminations, truncations))
    with np.errstate(over="ignore"):  # too large sums become infinite, and are rejected
        sums = (rewards * counted * powers[:-1, None]).sum(0).astype(np.float32)
    if not np.isfinite(sums).all():
        row = int(np.isfinite(sums).argmin())
        raise ValueError(
            f"the sum of {lengths[row]} rewards is too large for float32, got {sums[row]} at row {row} of "
            "the batch; scale the rewards down, or reduce n_steps="
        )
    discounts = (powers[lengths] * ~terminated).astype(np.float32)
    return NStepReturns(lengths, sums, terminated, truncated, discounts)


def window_lengths(discounts: np.ndarray, gamma: float) -> np.ndarray:
    """Return the number of steps m of each n-step window, (B,) int64, from its discount, which is gamma^m.

    If a discount is 0, or ``gamma`` is 0 or 1, the discount does not determine m, and the result is 1.
    """
    lengths = np.ones(len(discounts))
    if 0 < gamma < 1:
        np.log(discounts, out=lengths, where=discounts > 0, dtype=np.float64)
        lengths[discounts > 0] /= np.log(gamma)
    return np.rint(lengths).astype(np.int64)
