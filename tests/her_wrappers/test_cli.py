"""The ``her`` command."""

import re
import subprocess
import sys

import pytest

import her_wrappers
from her_wrappers import cli
from tests.support.commands import her


def test_version_shows_the_versions_for_a_bug_report():
    result = her("--version")
    assert result.exit_code == 0
    for name in (f"her-toolkit {her_wrappers.__version__}", "gymnasium 1", "numpy ", "python 3"):
        assert name in result.stdout


def test_without_arguments_the_commands_are_listed():
    result = her()
    assert result.exit_code == 0
    for name, summary in cli.COMMANDS.items():
        assert re.search(rf"^  {name} +{summary}$", result.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "hint"), [("inspekt", "did you mean `her inspect`?"), ("xyz", "choose from check,")]
)
def test_an_unknown_command_is_wrong_usage(name, hint):
    result = her(name)
    assert result.exit_code == 2
    assert f"unknown command {name!r}; {hint}" in result.stderr


@pytest.mark.parametrize("arguments", [["inspect", ""], ["train", "her_envs/PointReach-v0", "--offline", ""]])
def test_an_empty_argument_is_wrong_usage(arguments):
    result = her(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "got an empty argument" in result.stderr


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_shows_one_example_per_line(command):
    result = her(command, "-h", columns=80)
    assert result.exit_code == 0
    assert re.search(rf"For example:\s+- her {command}", result.stdout)
    assert "(required) (required)" not in result.stdout


def test_help_imports_no_large_package():
    code = (
        "import sys; from her_wrappers.cli import main\n"
        "for arguments in (['--help'], ['check', '--help'], ['train', '--help']):\n"
        "    try: main(arguments)\n"
        "    except SystemExit: pass\n"
        "sys.exit(bool({'torch', 'pygame', 'ray', 'matplotlib'} & sys.modules.keys()))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
