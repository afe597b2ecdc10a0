"""The page on reproduction: its commands are valid, its table of columns is complete, its program runs."""

import re
from pathlib import Path

from benchmarks.studies import bitflip
from benchmarks.studies.__main__ import main
from her_agents.recipes import Recipe

PAGE = (Path(__file__).parents[2] / "docs" / "reproduce.md").read_text()


def test_the_commands_are_valid(monkeypatch):
    done = []
    monkeypatch.setattr(Recipe, "require_installed", lambda self: None)
    monkeypatch.setattr(
        "benchmarks.studies.study.reproduce", lambda study, *_, **__: done.append(study.name) or []
    )
    for line in re.search(r"```console\n(.*?)```", PAGE, re.DOTALL).group(1).splitlines():
        assert main(line.split()[3:]) == 0
    assert done == ["bitflip", "bitflip", "strategies", "reach", "recipe_fetch_push", "ablation"]


def test_the_program_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = bitflip.settings
    few = {"steps": 1_600, "steps_per_epoch": 800, "evaluation_episodes": 5}
    monkeypatch.setattr(bitflip, "settings", lambda n: settings(n) | few)
    monkeypatch.setattr(bitflip, "QUICK", (10,))
    names = {}
    exec(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL).group(1), names)
    assert names["failures"] == []
    assert len(names["log"].steps) == len(names["log"].success_rate) == 2
    assert (tmp_path / "runs" / "mine" / "bitflip.md").exists()
