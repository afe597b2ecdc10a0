"""The page on reproduction: its commands are valid, its table of columns is complete, its program runs."""

import re
from pathlib import Path

from benchmarks.studies import ablation, bitflip, reach, recipes, strategies
from benchmarks.studies.__main__ import main
from benchmarks.studies.results_file import ResultsFile
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


def test_the_columns_of_all_studies_have_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(Recipe, "require_installed", lambda self: None)
    section = PAGE.partition("## The CSV file")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    documented = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    found = set()
    for study in (
        bitflip.make_study(1, quick=True),
        strategies.make_study(1, quick=True),
        reach.make_study(1, quick=True),
        recipes.make_study(1, quick=True, name="fetch_reach"),
        ablation.make_study(1, quick=True),
    ):
        path = tmp_path / f"{study.name}.csv"
        ResultsFile(path, study.runs)
        found |= set(path.read_text().strip().split(","))
    assert documented == found


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
