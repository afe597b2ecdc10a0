"""The table of mistakes in README.md and docs/checking.md is right."""

from __future__ import annotations

import re

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env

from tests.support.mistakes import KINDS, PAGES, ROOT, SEEDS, VECTOR, complains, line_of, row_of
from tests.support.specimens.broken import FAULTS
from tests.support.specimens.reach import DenseReach, Reach

sb3 = pytest.importorskip("stable_baselines3.common.env_checker")


@pytest.mark.parametrize("specimen", [Reach, DenseReach])
@pytest.mark.parametrize("check", [gymnasium_check_env, sb3.check_env])
def test_the_others_are_content_with_what_the_faults_are_planted_in(check, specimen):
    assert not any(complains(check, specimen, seed) for seed in SEEDS)


@pytest.mark.skipif(gym.__version__ < "1.4", reason="earlier checkers of Gymnasium see other mistakes")
@pytest.mark.parametrize("kind", [*KINDS, VECTOR])
def test_what_is_seen_of_a_kind_of_mistakes_is_what_the_pages_say(kind):
    """`python -m tests.support.mistakes` writes the table."""
    line = line_of(kind, row_of(kind, sb3.check_env))
    for page in PAGES:
        assert line in (ROOT / page).read_text(), page


@pytest.mark.parametrize("page", PAGES)
def test_the_last_row_adds_the_others_up(page):
    rows = re.findall(r"^\| (.*?) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", (ROOT / page).read_text(), re.M)
    assert [row[0] for row in rows] == [*KINDS, VECTOR, "all"]
    *parts, total = ([int(count) for count in row[1:]] for row in rows)
    assert total == [sum(column) for column in zip(*parts, strict=True)]
    assert total[0] == len(FAULTS)
