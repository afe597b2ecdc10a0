"""Buffers with priorities, and how often their transitions are sampled."""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy import stats

from her_wrappers import Priority
from tests.support.counting import counting_buffer, counting_episode


def prioritized_buffer(lengths=(), *, priority=None, **options):
    """A buffer of counting episodes with priorities."""
    buffer = counting_buffer(**{"prioritized": priority or Priority(), "buffer_size": 100} | options)
    for number, length in enumerate(lengths):
        buffer.add_episode(counting_episode(number, length))
    return buffer


def drawn(buffer, draws=40_000, batch_size=500):
    """How often each transition is drawn."""
    return Counter(
        int(number) for _ in range(draws // batch_size) for number in buffer.sample(batch_size).index
    )


def assert_drawn_in_proportion(counts, odds, p_value=1e-5):
    """A chi-square test of counts by number against odds by number; rare numbers are joined."""
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
