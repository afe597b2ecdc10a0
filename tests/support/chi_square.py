"""Chi-square tests of counts."""

import numpy as np
from scipy import stats


def assert_proportional(counts, odds, p_value=1e-4):
    """Assert by a chi-square test that a Counter is proportional to ``odds``; rare outcomes are merged."""
    assert counts.keys() <= odds.keys()
    expected = np.array(list(odds.values())) * counts.total() / sum(odds.values())
    found = np.array([counts[outcome] for outcome in odds])
    common = expected >= 5
    expected = np.append(expected[common], expected[~common].sum())
    found = np.append(found[common], found[~common].sum())
    if expected[-1] < 1:
        assert found[-1] < 5
        expected, found = expected[:-1], found[:-1]
    if len(found) > 1:
        assert stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > p_value
