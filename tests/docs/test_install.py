"""The page on installation: its table has every extra, and its versions are those of the project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "install.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_extra_has_a_row():
    cells = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == PROJECT[
        "optional-dependencies"
    ].keys()


def test_the_minimum_versions_are_those_of_the_project():
    assert f"Python {PROJECT['requires-python'].removeprefix('>=')} or later" in PAGE
    minimum = dict(re.findall(r"^([\w-]+)>=([\d.]+)", "\n".join(PROJECT["dependencies"]), re.MULTILINE))
    assert f"Gymnasium {minimum['gymnasium']}, NumPy {minimum['numpy']} and typer" in PAGE
