"""All example commands: help with examples, and validated options."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

COUNTS = {
    "quickstart": ("--bits", "--steps"),
    "offline_goals": ("--episodes", "--updates"),
    "relabel_for_cpprb": ("--bits", "--episodes"),
    "sb3_drop_in": ("--bits", "--reach-steps", "--flip-steps"),
}
"""Options that must be 1 at least, by command."""


def run(name, *arguments):
    module = pytest.importorskip(f"examples.{name}", reason="a package that the example needs is missing")
    return CliRunner().invoke(module.app, arguments, env={"COLUMNS": "120"})


@pytest.mark.parametrize("name", COUNTS)
def test_help_shows_examples(name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert f"python -m examples.{name} --seed 1" in result.output


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        *((name, option, "0") for name, options in COUNTS.items() for option in options),
        *((name, "--seed", "-1") for name in COUNTS),
    ],
)
def test_bad_options_are_usage_errors(name, option, value):
    result = run(name, option, value)
    assert (result.exit_code, "Invalid value" in result.output) == (2, True)
