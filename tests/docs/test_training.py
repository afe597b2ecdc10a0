"""The page on training: its examples run, and it names every algorithm and every column of the logs."""

from __future__ import annotations

import re
from pathlib import Path

from her_agents.algorithms.registry import ALGORITHMS
from her_agents.training.logs import COLUMNS
from tests.support.pages import names_after

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text()


def test_the_examples_run_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = names_after(PAGE)
    assert names["losses"].keys() >= {"critic_loss", "q_mean"}
    assert len(names["result"].history) == 2


def test_every_algorithm_and_every_column_has_a_row():
    for name in ALGORITHMS:
        assert f"| `{name}` |" in PAGE
    for name in COLUMNS:
        assert re.search(rf"^\|.*`{name}`.*\|", PAGE, re.MULTILINE), name
