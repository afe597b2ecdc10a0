"""The page on training: its examples run, and its tables are complete."""

import dataclasses
import re
from pathlib import Path

from her_agents.algorithms import ALGORITHMS
from her_agents.config import Config
from her_agents.logs import COLUMNS
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


def test_every_option_has_a_row_with_its_default():
    table = PAGE.split("## Options")[1].split("## ")[0]
    listed = {}
    for row, defaults in re.findall(r"^\| (`.*?) \| (.*?) \|", table, re.MULTILINE):
        names = re.findall(r"`(\w+)`", row)
        values = [value.strip().strip('"`') for value in defaults.split(",")]
        listed |= dict(zip(names, values if len(values) == len(names) else [""] * len(names), strict=True))
    for option in dataclasses.fields(Config):
        shown = listed[option.name]
        if isinstance(option.default, int | float | str):
            assert shown == str(option.default).lower()
