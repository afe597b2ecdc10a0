"""The examples and the commands of the README run and print what it shows."""

import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
from stable_baselines3 import DQN

from tests.support.commands import her

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def printed_by(program, folder):
    """Return what a program prints if it runs alone."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_the_example_prints_what_the_readme_shows(tmp_path):
    example, output = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", README, re.DOTALL).groups()
    assert len(example.splitlines()) <= 15
    assert printed_by(example, tmp_path) == output


def test_the_commands_for_an_environment_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^her (.*?) +#", README, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["check", "record", "inspect"]
    for command in commands:
        result = her(*command.split())
        assert result.exit_code == 0, result.output
    assert "100 of 5,000 steps" in result.output


def test_the_lines_for_stable_baselines3_are_those_of_its_page():
    page = (ROOT / "docs" / "stable_baselines3.md").read_text()
    (diff,) = re.findall(r"```diff\n(.*?)```", README, re.DOTALL)
    added = re.findall(r"^[+](.*)", diff, re.MULTILINE)
    assert added[0] in page
    program = "\n".join(line[1:] for line in diff.splitlines() if not line.startswith("-"))
    names = {"env": gym.make("her_envs:her_envs/BitFlipping-v0"), "DQN": DQN}
    exec(program, names)
    assert len(added) == 2
    assert names["model"].learn(60).replay_buffer.her_buffer.sample(4) is not None


def test_the_report_is_that_of_the_example(tmp_path):
    start = "import gymnasium as gym\nfrom her_wrappers import check_goal_env"
    example, report = re.search(
        rf"```python\n({start}.*?)```\n+```text\n(.*?)```", README, re.DOTALL
    ).groups()
    assert printed_by(example, tmp_path) == report
