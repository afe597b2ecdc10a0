"""The page on the replay buffer: its examples run, and its tables are complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from her_wrappers.replay.goal_selection import STRATEGIES
from her_wrappers.replay.relabeling import TerminationMode
from tests.support.pages import names_after

PAGE = (Path(__file__).parents[2] / "docs" / "replay.md").read_text()


def test_the_examples_run_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = names_after(PAGE)
    assert len(names["buffer"]) == 1000
    assert names["buffer"].sample(256).relabeled.sum() in {204, 205}


def test_every_strategy_and_termination_mode_has_a_row():
    for name in (*STRATEGIES, "random", "desired", *get_args(TerminationMode)):
        assert re.search(rf'^\| `"{name}"`', PAGE, re.MULTILINE), name
