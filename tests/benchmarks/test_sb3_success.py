"""The benchmark of success with Stable-Baselines3: its runs, intervals and tables."""

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

from benchmarks.sb3_success import SB3, SUCCESS, success_grid


def test_the_table_counts_the_seeds_that_pass():
    rows = success_grid({SB3: np.array([0.9, 0.92, 0.5]), SUCCESS: np.ones(3)}).rows
    assert [row[0] for row in rows] == [SB3, SUCCESS]
    assert [row[1].split()[0] for row in rows] == ["0.773", "1.000"]
    assert [row[3] for row in rows] == ["1 of 3", "3 of 3"]
    assert [row[4].partition(" ")[0] for row in rows] == ["", "+0.227"]
