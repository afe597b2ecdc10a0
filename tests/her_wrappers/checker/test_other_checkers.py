"""The table of mistakes in docs/checking.md agrees with measurements."""

from __future__ import annotations

import re

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env

from tests.support.mistakes import KINDS, PAGE, SEEDS, VECTOR, line_of, raises_or_warns, row_of
from tests.support.specimens.broken import FAULTS
from tests.support.specimens.reach import DenseReach, Reach

sb3 = pytest.importorskip("stable_baselines3.common.env_checker")


@pytest.mark.parametrize("specimen", [Reach, DenseReach])
@pytest.mark.parametrize("check", [gymnasium_check_env, sb3.check_env])
def test_other_checkers_accept_the_correct_environments(check, specimen):
    assert not any(raises_or_warns(check, specimen, seed) for seed in SEEDS)


@pytest.mark.skipif(gym.__version__ < "1.4", reason="earlier checkers of Gymnasium find other mistakes")
@pytest.mark.parametrize("kind", [*KINDS, VECTOR])
def test_each_row_of_the_table_is_correct(kind):
    """`python -m tests.support.mistakes` writes the table."""
    assert line_of(kind, row_of(kind, sb3.check_env)) in PAGE.read_text()


def test_the_last_row_is_the_sum_of_the_other_rows():
    rows = re.findall(r"^\| (.*?) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE.read_text(), re.M)
    assert [row[0] for row in rows] == [*KINDS, VECTOR, "all"]
    *counts, total = ([int(count) for count in row[1:]] for row in rows)
    assert total == [sum(column) for column in zip(*counts, strict=True)]
    assert total[0] == len(FAULTS)
