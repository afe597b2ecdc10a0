"""The page on the bundled environments: its examples and commands run."""

import re
from pathlib import Path

import pytest

from tests.support.commands import her
from tests.support.pages import names_after

PAGE = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()


def test_the_example_runs_with_the_described_results():
    names = names_after(PAGE)
    assert names["reward"] < 0
    assert names["state"]["position"].shape == names["state"]["goal"].shape == (1, 2)
    assert names["info"]["is_success"]


def commands():
    lines = re.findall(r"^(her .*?)(?:  +#.*)?$", PAGE, re.MULTILINE)
    return [line.split()[1:] for line in lines if "--keys" not in line]


@pytest.mark.parametrize("arguments", commands(), ids=" ".join)
def test_the_commands_run(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = her(*arguments)
    assert result.exit_code == 0, result.output
