"""The page on the replay buffer: its examples run."""

from __future__ import annotations

from pathlib import Path

from tests.support.pages import names_after

PAGE = (Path(__file__).parents[2] / "docs" / "replay.md").read_text()


def test_the_examples_run_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = names_after(PAGE)
    assert len(names["buffer"]) == 1000
    assert names["buffer"].sample(256).relabeled.sum() in {204, 205}
