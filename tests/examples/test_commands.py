"""All example commands: help with examples, and options."""

import pytest
import tyro

NAMES = ("quickstart", "offline_goals", "relabel_for_cpprb", "sb3_drop_in", "show_relabeling")


@pytest.mark.parametrize("name", NAMES)
def test_help_shows_examples(name, capsys):
    module = pytest.importorskip(f"examples.{name}", reason="a package that the example needs is missing")
    with pytest.raises(SystemExit, match="0"):
        tyro.cli(module.main, args=["--help"])
    assert f"python -m examples.{name} --seed 1" in capsys.readouterr().out
