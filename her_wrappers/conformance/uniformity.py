"""Statistical tests: how far rows are from a correct distribution, in standard deviations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

LIMIT = 6.0  # rules report a larger distance, which a correct buffer has in one or two of 10^9 tests


def share_z(chosen: Any, probability: Any, batch: Any, *clusters: np.ndarray) -> float:
    """Return how far the share of ``chosen`` rows, (B,) bool, is from its expectation.

    Rows may depend on each other, as in stratified sampling, or if relabeled transitions are stored. So the
    standard deviation is computed for independent rows, for independent batches, and for independent clusters
    of each argument of ``clusters``, (B,) numbers; the largest one is used.
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
    """Return how far (B,) values are from independence in each of (B,) clusters, and their mean correlation.

    The values have the same expectation. The result is (0, 0) if no two can be compared.
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
