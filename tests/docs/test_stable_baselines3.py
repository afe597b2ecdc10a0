"""The page on Stable-Baselines3, and the lines for it in the README: their examples run."""

import re

import gymnasium as gym
import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

from stable_baselines3 import DQN

from her_wrappers.integrations.sb3 import HerReplayBuffer
from tests.support.pages import ROOT, names_after
from tests.support.sb3_versions import needs_n_steps

PAGE = (ROOT / "docs" / "stable_baselines3.md").read_text()


@needs_n_steps
def test_the_examples_run_from_top_to_bottom(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = names_after(PAGE)
    assert isinstance(names["model"].replay_buffer, HerReplayBuffer)
    assert "Statistics(" in capsys.readouterr().out
    assert len(names["success_rates"]) == 3
    assert names["action"] in names["env"].action_space


def test_the_lines_of_the_readme_are_those_of_the_page():
    (diff,) = re.findall(r"```diff\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    added = re.findall(r"^[+](.*)", diff, re.MULTILINE)
    assert len(added) == 2
    assert added[0] in PAGE
    names = {"env": gym.make("her_envs:her_envs/BitFlipping-v0"), "DQN": DQN}
    exec("\n".join(line[1:] for line in diff.splitlines() if not line.startswith("-")), names)
    assert names["model"].learn(60).replay_buffer.her_buffer.sample(4) is not None
