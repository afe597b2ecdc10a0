"""The page on archives: its commands and examples run and print the output shown."""

import re
from pathlib import Path

import pytest

from tests.support.commands import her
from tests.support.pages import names_after

PAGE = (Path(__file__).parents[2] / "docs" / "archives.md").read_text()


def test_the_commands_print_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = re.search(r"```console\n(.*?)```", PAGE, re.DOTALL).group(1).splitlines()
    for command in (commands[0], commands[2]):
        result = her(*command.split()[1:], columns=120)
        assert result.exit_code == 0, result.output
    printed = [" ".join(line.split()) for line in result.output.strip().splitlines()]
    shown = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL).group(1).strip().splitlines()
    assert printed == [" ".join(line.split()) for line in shown]


@pytest.mark.filterwarnings("ignore:.* is set to None:UserWarning")  # Minari warns about missing metadata
def test_the_examples_run_from_top_to_bottom(tmp_path, monkeypatch):
    pytest.importorskip("minari", reason="minari is missing: the extra minari")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    names = names_after(PAGE.partition("## LeRobot")[0])  # tests/lerobot runs the rest
    assert names["buffer"].num_episodes == len(names["archive"]) == len(names["episodes"]) == 3
