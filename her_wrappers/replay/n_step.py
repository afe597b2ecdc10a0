"""Returns of up to n steps, whose rewards all belong to one goal.

The window of a sampled row consists of the steps whose rewards are summed. It has fewer than n steps if the
episode ends, if a step terminates, or, in a row that is not relabeled, if the goal changes. Terminations
under a new goal have to be computed, so all steps that a window may contain are relabeled before rewards are
summed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from her_wrappers.replay.batch import Batch


class Windows(NamedTuple):
    """The steps of B windows, each padded to W steps by repeating the last step that it may contain."""

    ahead: Any  # (B, W) distance of each step from the first
    is_last: Any  # (B * W,) bool, whether a step is the last of its episode
    within: Any  # (W, B) bool, whether a step is not padding
    powers: Any  # (W + 1,) float64, gamma^m for m from 0 to W

    @classmethod
    def of(cls, steps_left: np.ndarray, steps_to_end: np.ndarray, gamma: float, arrays: Any) -> Windows:
        """Return B windows.

        ``steps_left``, (B,), is the largest number of steps of each window; ``steps_to_end``, (B,), is the
        number of steps from the start of each window to the end of its episode.
        """
        order = np.arange(int(steps_left.max()))
        ahead = np.minimum(order, steps_left[:, None] - 1)
        is_last = (ahead == steps_to_end[:, None] - 1).reshape(-1)
        parts = ahead, is_last, order[:, None] < steps_left, gamma ** np.arange(len(order) + 1.0)
        return cls(*map(arrays.from_numpy, parts))


def n_step_returns(windows: Windows, steps: Batch, arrays: Any) -> tuple[Any, ...]:
    """Return the n-step returns of B windows, given their B * W steps: first the W steps of window 0.

    The results are five (B,) arrays: number of steps m, sum of rewards, termination, truncation and discount
    of each window. Sums of tensors are not checked for infinity, since the check would wait for the device.
    """
    width = len(windows.within)
    columns = [each.reshape(-1, width).T for each in (steps.rewards, steps.terminations, steps.truncations)]
    if not arrays.is_torch:  # NumPy sums contiguous columns in half the time
        columns = [np.ascontiguousarray(values) for values in columns]
    rewards, terminations, truncations = columns
    # False after the first step that terminates.
    counted = windows.within & (terminations.cumsum(0) <= terminations)
    lengths = counted.sum(0)
    terminated = (terminations & counted).any(0)
    with np.errstate(over="ignore"):  # too large sums become infinite, and are rejected
        sums = arrays.float32((rewards * counted * windows.powers[:-1, None]).sum(0))
    if not arrays.is_torch and not np.isfinite(sums).all():
        row = int(np.isfinite(sums).argmin())
        raise ValueError(
            f"the sum of n_steps rewards must be finite as float32, got {sums[row]} at row {row}; "
            "multiply the rewards by a smaller factor, or reduce n_steps"
        )
    discounts = arrays.float32(windows.powers[lengths] * ~terminated)
    return lengths, sums, terminated, (truncations & counted).any(0), discounts


def window_lengths(discounts: np.ndarray, gamma: float) -> np.ndarray:
    """Return the numbers of steps m, (B,) int64, of n-step windows from their (B,) ``discounts`` gamma^m.

    If a discount is 0, or ``gamma`` is 0 or 1, the discount does not determine m, and the result is 1.
    """
    lengths = np.ones(len(discounts))
    if 0 < gamma < 1:
        np.log(discounts, out=lengths, where=discounts > 0, dtype=np.float64)
        lengths[discounts > 0] /= np.log(gamma)
    return np.rint(lengths).astype(np.int64)
