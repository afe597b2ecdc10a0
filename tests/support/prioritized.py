"""Buffers with priorities, and frequencies of their transitions in batches."""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy import stats

from her_wrappers import Priority
from tests.support.counting import counting_buffer, counting_episode


def prioritized_buffer(lengths=(), *, priority=None, **options):
    """Return a buffer of counting episodes with priorities."""
    buffer = counting_buffer(**{"prioritized": priority or Priority(), "buffer_size": 100} | options)
    for number, length in enumerate(lengths):
        buffer.add_episode(counting_episode(number, length))
    return buffer


def count_samples(buffer, draws=40_000, batch_size=500):
    """Return the number of times that each transition is sampled."""
    return Counter(
        int(number) for _ in range(draws // batch_size) for number in buffer.sample(batch_size).index
    )


def assert_proportional(counts, odds, p_value=1e-5):
    """Assert by a chi-square test that counts are proportional to ``odds``; rare outcomes are merged."""
    assert counts.keys() <= odds.keys()
    expected = np.array(list(odds.values())) * counts.total() / sum(odds.values())
    found = np.array([counts[number] for number in odds])
    common = expected >= 5
    expected = np.append(expected[common], expected[~common].sum())
    found = np.append(found[common], found[~common].sum())
    if expected[-1] == 0:
        expected, found = expected[:-1], found[:-1]
    if len(found) > 1:
        assert stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > p_value
