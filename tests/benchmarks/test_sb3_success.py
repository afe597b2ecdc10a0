"""The benchmark of success with Stable-Baselines3: its runs, intervals and tables."""

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

from benchmarks.sb3_success import BUFFERS, SB3, SUCCESS, success_grid, success_rate


@pytest.mark.parametrize("name", BUFFERS)
def test_a_seed_gives_the_same_success_rate_again(name):
    rates = [success_rate(name, seed, 60) for seed in (3, 3)]
    assert rates[0] == rates[1]
    assert 0 <= rates[0] <= 1


def test_the_table_counts_the_seeds_that_pass():
    rows = success_grid({SB3: np.array([0.9, 0.92, 0.5]), SUCCESS: np.ones(3)}).rows
    assert [row[0] for row in rows] == [SB3, SUCCESS]
    assert [row[1] for row in rows] == ["0.773", "1.000"]
    assert [row[4] for row in rows] == ["1 of 3", "3 of 3"]
