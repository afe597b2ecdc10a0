"""Statistical tests of how often a buffer samples transitions, relabels them, and chooses goals.

Each test returns how far rows are from a correct distribution, in standard deviations; a rule reports a
distance above `LIMIT`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

LIMIT = 6.0
"""Limit in standard deviations; a correct buffer exceeds this limit in one or two of 10^9 tests."""


def share_z(chosen: Any, probability: Any, batch: Any, *clusters: np.ndarray) -> float:
    """Return how far the share of chosen rows is from its expectation.

    Rows may depend on each other, as in stratified sampling, or if relabeled transitions are stored: the
    standard deviation is the largest one of independent rows, of independent batches, and of each grouping
    into independent clusters.

    Args:
        chosen: (B,) bool.
        probability: Probability of each row to be chosen, a float or (B,).
        batch: (B,) number of the batch of each row.
        *clusters: (B,) number of the cluster of each row; there must be many clusters.
    """
    if not len(chosen):
        return 0.0
    excess = chosen - np.broadcast_to(probability, len(chosen))
    rest = excess - excess.mean()  # few batches may all have the same excess
    parts = [(rest, batch), *((excess, cluster) for cluster in clusters)]
    sums = (np.bincount(np.unique(group, return_inverse=True)[1], each) for each, group in parts)
    binomial = np.mean(probability * (1 - probability)) * len(chosen)
    variance = max(binomial, (excess**2).sum(), *((each**2).sum() for each in sums), 1e-9)
    return float(abs(excess.sum()) / math.sqrt(variance))


def dependence(values: np.ndarray, cluster: np.ndarray) -> tuple[float, float]:
    """Return how far values of one cluster are from being independent of each other, and their correlation.

    ``values`` are (B,) values with one expectation, ``cluster`` (B,) the number of the cluster of each.
    """
    if not len(values) or values.std() < 1e-9:  # equal up to rounding
        return 0.0, 0.0
    _, group, size = np.unique(cluster, return_inverse=True, return_counts=True)
    sums, several = np.bincount(group, (values - values.mean()) / values.std()), size > 1
    degrees, excess = several.sum(), (sums**2 - size)[several].sum()
    if not degrees:
        return 0.0, 0.0
    statistic = (sums**2 / size)[several].sum()
    spread = 2 / (9 * degrees)  # of chi-square in the approximation of Wilson and Hilferty 1931
    z = ((statistic / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return float(z), float(excess / (size * (size - 1)).sum())
