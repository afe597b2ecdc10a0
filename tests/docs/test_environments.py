"""The page on the bundled environments: its examples run, and its table is complete."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium as gym
import pytest

from her_envs.registration import ENTRY_POINTS
from tests.support.commands import her
from tests.support.pages import names_after

PAGE = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()


def test_the_example_runs_with_the_described_results():
    names = names_after(PAGE)
    assert names["reward"] < 0
    assert names["state"]["position"].shape == names["state"]["goal"].shape == (1, 2)
    assert names["info"]["is_success"]


def test_every_id_has_a_row_with_its_action_space():
    rows = dict(re.findall(r"^\| `(her_envs/.*?)` \| (\w+) \|", PAGE, re.MULTILINE))
    assert rows == {env_id: type(gym.make(env_id).action_space).__name__ for env_id in ENTRY_POINTS}


def commands():
    lines = re.findall(r"^(her .*?)(?:  +#.*)?$", PAGE, re.MULTILINE)
    return [line.split()[1:] for line in lines if "play" not in line]


@pytest.mark.parametrize("arguments", commands(), ids=" ".join)
def test_the_commands_run(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = her(*arguments)
    assert result.exit_code == 0, result.output
