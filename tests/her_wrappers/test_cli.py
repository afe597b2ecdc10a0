"""The ``her`` command."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from her_wrappers.cli import app

COMMANDS = [command.callback.__name__.replace("_", "-") for command in app.registered_commands]


def test_version_shows_the_versions_for_a_bug_report():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    for name in ("her-toolkit 0", "gymnasium 1", "numpy ", "python 3"):
        assert name in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_one_example_per_line(command):
    _, found, examples = CliRunner().invoke(app, [command, "--help"]).output.partition("For example:")
    assert found
    assert f"• her {command}" in examples


def test_without_arguments_the_help_is_shown():
    assert "Usage" in CliRunner().invoke(app, []).output


def test_the_command_is_installed():
    (command,) = entry_points(group="console_scripts", name="her")
    assert command.load() is app


CLICK = get_command(app)
ALL = {name: [name] for name in CLICK.commands}


@pytest.mark.parametrize("name", ALL)
def test_help_shows_whole_option_names_at_80_columns(name):
    command = CLICK
    for part in ALL[name]:
        command = command.commands[part]
    result = CliRunner().invoke(app, [*ALL[name], "-h"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80
    for option in command.params:
        if option.param_type_name == "option":
            for shown in [*option.opts, *option.secondary_opts]:
                assert shown in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_works(shell, monkeypatch):
    assert "--install-completion" in CliRunner().invoke(app, ["-h"]).output
    line = {"bash": {"COMP_WORDS": "her tr", "COMP_CWORD": "1"}}.get(
        shell, {"_TYPER_COMPLETE_ARGS": "her tr"}
    )
    environment = {"_HER_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args", **line}
    result = CliRunner().invoke(app, [], prog_name="her", env=environment)
    assert "train" in result.output
