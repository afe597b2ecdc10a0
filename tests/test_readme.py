"""The commands of the README and its lines for Stable-Baselines3 run (`test_every_page.py`: its programs)."""

import re
from pathlib import Path

import gymnasium as gym
from stable_baselines3 import DQN

from tests.support.commands import her

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


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
