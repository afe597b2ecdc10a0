"""Statistical tests of how often a buffer samples transitions, relabels them, and chooses goals.

Each test returns a deviation from the correct distribution; a rule reports a deviation above `LIMIT`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

LIMIT = 6.0
"""Limit in standard deviations; a correct buffer exceeds this limit in one or two of 10^9 tests."""


def proportion_z(count: Any, total: Any, probability: Any) -> Any:
    """Return how far binomial counts are from the expected ones, in standard deviations; 0 without trials.

    The distance is computed as the square root of the deviance, so that one `LIMIT` suits all counts.
    """
    parts = ((count, probability), (total - count, 1 - probability))
    deviance = sum(n * np.log(np.maximum(n, 1) / np.maximum(total * p, 1e-9)) for n, p in parts)
    return np.sqrt(np.maximum(2 * deviance, 0))


def share_z(chosen: np.ndarray, batch: np.ndarray, probability: float) -> float:
    """Return how far the share of chosen rows is from a probability, in standard deviations.

    The rows of a batch may depend on each other, as in stratified and systematic sampling, but those of
    different batches may not: the standard deviation is the larger one of independent rows and of batches.

    Args:
        chosen: (B,) bool.
        batch: (B,) number of the batch of each row.
        probability: Expected share.
    """
    if not len(chosen):
        return 0.0
    of_rows = float(proportion_z(chosen.sum(), len(chosen), probability))
    if of_rows <= LIMIT:
        return of_rows
    rest = np.bincount(batch, chosen - chosen.mean())
    spread = math.sqrt((rest**2).sum()) / len(chosen)
    distance = abs(float(chosen.mean()) - probability)
    return min(of_rows, distance / spread) if spread else of_rows


def largest_count_z(counts: np.ndarray) -> float:
    """Return how far the largest of several equally likely counts is from the average.

    This also holds if counts depend on each other; the limit allows for several thousand of them.
    """
    average, largest = (float(counts.mean()), float(counts.max())) if len(counts) else (0.0, 0.0)
    if not average:
        return 0.0
    deviance = 2 * (largest * math.log(largest / average) - largest + average)
    return math.sqrt(deviance) - 1.5


def uniformity_z(groups: Sequence[np.ndarray]) -> float:
    """Return how far the counts of all groups together are from uniform, in standard deviations.

    Each group is an array with the count of each outcome. Groups with a single outcome, or with an average
    count below 5, are ignored.
    """
    kept = [group for group in groups if len(group) > 1 and group.sum() >= 5 * len(group)]
    degrees = sum(len(group) - 1 for group in kept)
    if not degrees:
        return 0.0
    return chi_square_z(sum(((group - group.mean()) ** 2 / group.mean()).sum() for group in kept), degrees)


def dependence_z(group: np.ndarray, outcome: np.ndarray) -> float:
    """Return how far outcomes are from being independent of their groups, in standard deviations.

    ``outcome[i]`` belongs to ``group[i]``. If ``outcome`` has m distinct values, groups of fewer than 5 * m
    values are ignored.
    """
    groups, outcomes = (np.unique(each, return_inverse=True)[1] for each in (group, outcome))
    table = np.zeros((groups.max(initial=-1) + 1, outcomes.max(initial=-1) + 1))
    np.add.at(table, (groups, outcomes), 1)
    table = table[table.sum(axis=1) >= 5 * table.shape[1]]
    table = table[:, table.any(axis=0)]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / max(table.sum(), 1)
    degrees = (len(table) - 1) * (table.shape[1] - 1)
    if degrees < 1:
        return 0.0
    return chi_square_z(((table - expected) ** 2 / expected).sum(), degrees)


def chi_square_z(statistic: float, degrees: int) -> float:
    """Return a chi-square statistic as an approximately normal deviation (Wilson and Hilferty 1931)."""
    spread = 2 / (9 * degrees)
    return float(((statistic / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread))


def counts_of(values: np.ndarray, low: int, high: int) -> np.ndarray:
    """Return an array of ``high - low`` counts: how often each integer in [low, high) is in ``values``."""
    return np.bincount(values[(values >= low) & (values < high)] - low, minlength=high - low)


def bins_of(position: np.ndarray, size: np.ndarray | int, bins: int) -> np.ndarray:
    """Return the bin, 0 to ``bins`` - 1, of each position in [0, size); uniform positions give uniform bins.

    If ``bins`` does not divide a size, positions at the border of two bins are assigned randomly.
    """
    inside = np.random.default_rng(0).random(len(position))
    return np.asarray((position + inside) / np.maximum(size, 1) * bins).astype(int)


def first_of_each(name: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return, among the rows in the mask ``chosen``, the index of the first row with each name.

    Statistical tests of goals use only the first row of each transition, since several rows of one transition
    may depend on each other: a buffer that stores relabeled transitions can sample the same one twice.
    """
    index = np.flatnonzero(chosen)
    _, first = np.unique(name[index], return_index=True)
    return index[first]
