"""The ``her`` command."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest
from typer.testing import CliRunner

from her_wrappers.cli import app

COMMANDS = [command.callback.__name__.replace("_", "-") for command in app.registered_commands]


def test_version_says_what_a_bug_report_needs():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    for name in ("her-toolkit 0", "gymnasium 1", "numpy ", "python 3"):
        assert name in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_examples_one_a_line(command):
    _, found, examples = CliRunner().invoke(app, [command, "--help"]).output.partition("For example:")
    assert found
    assert f"• her {command}" in examples


def test_without_arguments_it_helps():
    assert "Usage" in CliRunner().invoke(app, []).output


def test_the_command_is_installed():
    (command,) = entry_points(group="console_scripts", name="her")
    assert command.load() is app
