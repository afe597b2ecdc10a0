"""The example and the commands of the README run, and its numbers are those of the results."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from stable_baselines3 import DQN
from typer.testing import CliRunner

from her_agents.recipes import Recipe, read_recipe, recipe_names
from her_wrappers.cli import app
from her_wrappers.conformance.registry import REPLAY_RULES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "docs" / "results"
PEERS = ("Stable-Baselines3", "cpprb", "TorchRL", "Tianshou")


def printed_by(program, folder):
    """Return what a program prints if it runs alone."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_the_example_prints_what_the_readme_shows(tmp_path):
    example, output = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", README, re.DOTALL).groups()
    assert len(example.splitlines()) <= 15
    assert printed_by(example, tmp_path) == output


def test_every_picture_exists():
    pictures = re.findall(r'src="(.*?)"', README)
    assert pictures
    assert all((ROOT / picture).exists() for picture in pictures)


def test_the_commands_for_an_environment_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^her (.*?) +#", README, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["check", "record", "inspect"]
    for command in commands:
        result = CliRunner().invoke(app, command.split())
        assert result.exit_code == 0, result.output
    assert "100 of 5,000 steps" in result.output
    assert f"against {len(REPLAY_RULES)} rules" in README
    assert f"with {len(REPLAY_RULES)} rules" in (ROOT / "docs" / "index.md").read_text()
    assert f"with {len(REPLAY_RULES)} rules" in (ROOT / "CHANGELOG.md").read_text()


def test_the_gif_is_small_and_its_program_has_its_command():
    picture = ROOT / "docs" / "images" / "relabeling.gif"
    assert picture.stat().st_size < 1_000_000
    program = (ROOT / "docs" / "images" / "make.py").read_text()
    (command,) = re.findall(
        r"^    her (show-relabeling .*?) --out docs/images/relabeling.gif$", program, re.M
    )
    assert f"RELABELING = {command.split()}".replace("'", '"') in program


def number(page, section, row, column):
    """Return the number in a column of the first row ``row`` after ``section`` in a page of results."""
    text = (RESULTS / page).read_text().split(section, 1)[1]
    (line,) = re.findall(rf"^\| {re.escape(row)} \|.*$", text, re.MULTILINE)[:1]
    return float(re.search(r"[\d.,]+", line.split("|")[column]).group().replace(",", ""))


def recipes_table():
    """Return the table of the recipes' measured results, those of most seeds first."""
    lines = ["| task | success rate | steps to 0.95 | minutes to 0.95 | seeds |", "|---|---|---|---|---|"]
    measured = [(recipe, recipe.measured) for recipe in map(read_recipe, recipe_names()) if recipe.measured]
    for recipe, result in sorted(measured, key=lambda row: (-row[1].seeds, row[0].environment)):
        solved = "" if recipe.solved == Recipe.solved else f" (to {recipe.solved:.2f})"
        cells = f"{result.success:.2f} | {result.steps:,}{solved} | {result.minutes:.0f} | {result.seeds} |"
        lines.append(f"| [{recipe.environment}](docs/results/recipe_{recipe.name}.md) | {cells}")
    return "\n".join(lines)


def checkers_table():
    """Return the table of the faults that each checker finds, from docs/checking.md."""
    page = (ROOT / "docs" / "checking.md").read_text()
    planted, *found = re.search(r"^\| all \| (.*) \|$", page, re.MULTILINE)[1].split(" | ")
    cells = " | ".join(f"{count} of {planted}" for count in found)
    return f"| `her check` | Gymnasium | Stable-Baselines3 |\n|---|---|---|\n| {cells} |"


def scoreboard_table():
    """Return the numbers of rules that each buffer breaks, from docs/scoreboard.md."""
    page = (ROOT / "docs" / "scoreboard.md").read_text()
    names, errors, warnings = (
        re.search(rf"^\| {start} \| (.*) \|$", page, re.MULTILINE)[1].split(" | ")
        for start in (r"rule \|", r"all \| errors", r"all \| warnings")
    )
    rows = dict(zip(names, zip(errors, warnings, strict=True), strict=True))
    shown = [name for name in rows if name == "her-toolkit" or not name.startswith("her-toolkit")]
    lines = [f"| | {' | '.join(shown)} |", "|---|" + "---|" * len(shown)]
    for i, severity in enumerate(("errors", "warnings")):
        lines.append(f"| {severity} | {' | '.join(rows[name][i] for name in shown)} |")
    return "\n".join(lines)


def speed_rows():
    """Return the rows of the table of speeds: cost of each library relative to her-toolkit, 0 if unknown."""
    ours = number("replay.md", "## sample(256)", "her-toolkit", 2)
    small = [number("replay.md", "## sample(256)", peer, 2) / ours for peer in PEERS]
    cpprb = "sample(256) of 10,000: times as fast as cpprb"
    small[1] = number("replay.md", "## Promised", cpprb, 2)  # the median of the ratios of each turn
    large = [number("replay.md", "## sample(256)", peer, 5) for peer in PEERS]
    added = [number("replay.md", "## Adding and sampling", peer, 3) for peer in PEERS]
    cost = "sample(256) and update_priorities of {}: cost over cpprb, HER"
    priorities = [
        number("replay_priorities.md", "## Promised", cost.format(size), 2)
        for size in ("1,000,000", "10,000")
    ]
    recorded = number(
        "recording.md", "## Promised", "cost of EpisodeRecorder into buffer / SB3 HerReplayBuffer.add", 2
    )
    theirs, mine = (
        number("sb3_training.md", "## Cost of a step", f"1,000,000 | {name}", 3)
        for name in ("Stable-Baselines3", "her_wrappers")
    )
    return {
        "`sample(256)` of 1,000,000 transitions": (large, "replay.md"),
        "`sample(256)` of 10,000 transitions": (small, "replay.md"),
        "adding a step, then `sample(256)` of 1,000,000": (added, "replay.md"),
        "`sample(256)` of 1,000,000 with priorities, and updating them": (
            [0, 1 / priorities[0]],
            "replay_priorities.md",
        ),
        "`sample(256)` of 10,000 with priorities, and updating them": (
            [0, 1 / priorities[1]],
            "replay_priorities.md",
        ),
        "recording a step into the buffer with `EpisodeRecorder`": ([1 / recorded], "recording.md"),
        "a whole step of a SAC training, buffer of 1,000,000": ([theirs / mine], "sb3_training.md"),
    }


def speed(ratio):
    """Return a cell: the cost of another library relative to that of her-toolkit, in words."""
    if not ratio:
        return ""
    factor = max(ratio, 1 / ratio)
    shown = f"{factor:.0f}" if factor >= 9.95 else f"{factor:.1f}"
    return f"{shown} times {'faster' if ratio > 1 else 'slower'}"


def speed_table():
    lines = [f"| | {' | '.join(PEERS)} |", "|---|---|---|---|---|"]
    for label, (ratios, page) in speed_rows().items():
        cells = [f" {speed(ratio)} " for ratio in [*ratios, 0, 0, 0][: len(PEERS)]]
        lines.append(f"| [{label}](docs/results/{page}) |{'|'.join(cells)}|")
    return "\n".join(lines)


@pytest.mark.parametrize("table", [recipes_table, checkers_table, scoreboard_table, speed_table])
def test_the_tables_have_the_numbers_of_the_pages(table):
    assert table() in README, f"README.md should have\n{table()}"


def test_the_success_with_stable_baselines3_is_that_of_its_page():
    sb3 = number("sb3_success.md", "## Success", "Stable-Baselines3", 2)
    ours = number("sb3_success.md", "## Success", 'her_wrappers, termination="success"', 2)
    assert f"is {ours:.2f} instead of {sb3:.2f}" in README


def test_the_lines_for_stable_baselines3_are_those_of_its_page():
    page = (ROOT / "docs" / "stable_baselines3.md").read_text()
    (diff,) = re.findall(r"```diff\n(.*?)```", README, re.DOTALL)
    added = re.findall(r"^[+](.*)", diff, re.MULTILINE)
    assert added[0] in page
    program = "\n".join(line[1:] for line in diff.splitlines() if not line.startswith("-"))
    names = {"env": gym.make("her_envs:her_envs/BitFlipping-v0"), "DQN": DQN}
    exec(program, names)
    assert len(added) == 2
    assert names["model"].learn(60).replay_buffer.hindsight.sample(4) is not None


def test_the_report_is_that_of_the_example(tmp_path):
    start = "import gymnasium as gym\nfrom her_wrappers import check_goal_env"
    example, report = re.search(
        rf"```python\n({start}.*?)```\n+```text\n(.*?)```", README, re.DOTALL
    ).groups()
    assert printed_by(example, tmp_path) == report
