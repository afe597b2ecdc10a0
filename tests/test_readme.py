"""The example and the commands of the README run, and its numbers are those of the results."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from typer.testing import CliRunner

from her_envs.registration import ENTRY_POINTS
from her_wrappers.checker.registry import RULES
from her_wrappers.cli import app
from her_wrappers.conformance.registry import REPLAY_RULES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "docs" / "results"
PEERS = ("Stable-Baselines3", "cpprb", "TorchRL", "Tianshou")


def test_the_example_prints_what_the_readme_shows(tmp_path):
    example, output = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", README, re.DOTALL).groups()
    assert len(example.splitlines()) <= 15
    result = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout == output


def test_every_link_has_a_target():
    targets = re.findall(r"\]\(([^)#]+)", README) + re.findall(r'src="(.*?)"', README)
    assert len(targets) > 20
    for target in targets:
        assert (ROOT / target).exists(), target


def test_the_commands_for_an_environment_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^her (.*?) +#", README, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["check", "record", "inspect"]
    for command in commands:
        result = CliRunner().invoke(app, command.split())
        assert result.exit_code == 0, result.output
    assert "100 of 5,000 steps" in result.output
    assert f"# {len(RULES)} rules;" in README
    assert f"[{len(RULES)} rules]" in (ROOT / "docs" / "index.md").read_text()
    assert f"[applies {len(REPLAY_RULES)} rules" in README
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


def test_every_environment_has_a_row_with_its_action_space():
    rows = dict(re.findall(r"^\| `(her_envs/.*?)` \| (\w+) \|", README, re.MULTILINE))
    assert rows == {env_id: type(gym.make(env_id).action_space).__name__ for env_id in ENTRY_POINTS}


def number(page, section, row, column):
    """Return the number in a column of the first row ``row`` after ``section`` in a page of results."""
    text = (RESULTS / page).read_text().split(section, 1)[1]
    (line,) = re.findall(rf"^\| {re.escape(row)} \|.*$", text, re.MULTILINE)[:1]
    return float(re.search(r"[\d.,]+", line.split("|")[column]).group().replace(",", ""))


def speed_rows():
    """Return the rows of the README table: cost of each library relative to her-toolkit, 0 if unknown."""
    small = [number("replay.md", "## sample(256)", peer, 2) for peer in PEERS]
    ours = number("replay.md", "## sample(256)", "her-toolkit", 2)
    tensors = number(
        "replay.md",
        "## Promised",
        "sample(256).to_torch() of 1,000,000: times as fast as Stable-Baselines3",
        2,
    )
    large = [number("replay.md", "## sample(256)", peer, 5) for peer in PEERS]
    added = [number("replay.md", "## Adding and sampling", peer, 3) for peer in PEERS]
    priorities = number(
        "replay_priorities.md",
        "## Promised",
        "sample(256) and update_priorities of 1,000,000: cost over cpprb, HER",
        2,
    )
    recorded = number(
        "recording.md", "## Promised", "cost of EpisodeRecorder into buffer / SB3 HerReplayBuffer.add", 2
    )
    trained = number(
        "sb3_training.md",
        "## Promised",
        "the replay's share of a step, 1,000,000 slots: times smaller than with Stable-Baselines3's buffer",
        2,
    )
    memory = number("replay.md", "## Memory", "25/3/4 floats", 4)
    return {
        "`sample(256)` of 1,000,000 transitions": (large, "replay.md"),
        "`sample(256).to_torch()` of 1,000,000": ([tensors], "replay.md"),
        "`sample(256)` of 10,000": ([time / ours for time in small], "replay.md"),
        "adding a step, then `sample(256)` of 1,000,000": (added, "replay.md"),
        "`sample(256)` with priorities, then updating them": ([0, 1 / priorities], "replay_priorities.md"),
        "recording a step into the buffer": ([1 / recorded], "recording.md"),
        "the buffer's time in a training with SB3": ([trained], "sb3_training.md"),
        "memory per transition": ([1 / memory], "replay.md"),
    }


COMMANDS = {
    "replay.md": "make bench-replay",
    "replay_priorities.md": "make bench-priorities",
    "recording.md": "python -m benchmarks.recording",
    "sb3_training.md": "python -m benchmarks.sb3_training",
}


def speed_table():
    lines = [f"| others / ours | {' | '.join(PEERS)} | measured by |", "|---|---|---|---|---|---|"]
    for label, (times, page) in speed_rows().items():
        cells = [f" {time:.3g} " if time else " " for time in [*times, 0, 0, 0][: len(PEERS)]]
        lines.append(f"| {label} |{'|'.join(cells)}| [`{COMMANDS[page]}`](docs/results/{page}) |")
    return "\n".join(lines)


def test_the_speeds_are_those_of_the_results():
    assert speed_table() in README, f"README.md should have\n{speed_table()}"


@pytest.mark.parametrize("command", COMMANDS.values())
def test_the_commands_that_measure_exist(command):
    if command.startswith("make "):
        assert f"\n{command.split()[1]}:" in (ROOT / "Makefile").read_text()
    else:
        assert (ROOT / f"{command.split()[-1].replace('.', '/')}.py").exists()
