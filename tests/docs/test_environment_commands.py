"""The page on the bundled environments: its commands run (`test_every_page.py` runs its example)."""

import re
from pathlib import Path

import pytest

from tests.support.commands import her

PAGE = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()


def commands():
    lines = re.findall(r"^(her .*?)(?:  +#.*)?$", PAGE, re.MULTILINE)
    return [line.split()[1:] for line in lines]


@pytest.mark.parametrize("arguments", commands(), ids=" ".join)
def test_the_commands_run(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = her(*arguments)
    assert result.exit_code == 0, result.output
