"""Tests that the tables of docs/migrating.md list exactly the parameters of each library."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from her_wrappers import HindsightReplayBuffer

pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = (Path(__file__).parents[2] / "docs" / "migrating.md").read_text()
SECTIONS = dict(section.split("\n", 1) for section in PAGE.split("\n## ")[1:])
MODULES = {
    "Stable-Baselines3": ("stable_baselines3",),
    "cpprb": ("cpprb",),
    "Tianshou": ("tianshou.data", "tianshou.algorithm"),
    "TorchRL": ("torchrl.data", "torchrl.envs.transforms"),
}
IN_PART = {"DDPG"}  # a learner, of which the page has only the parameters of replay


def tables():
    """Return, for each table of the page, its section, the function in its heading and its parameters."""
    found = []
    for section in MODULES:
        for table in re.findall(r"(?:^\|.*\n)+", SECTIONS[section], re.MULTILINE):
            heading, _, *rows = table.splitlines()
            if "`" not in heading:  # a table of methods
                continue
            cells = [row.split("|")[1] for row in rows]
            path, named = re.findall(r"`([\w.]+)`", heading)[0], re.findall(r"`(\w+)`", " ".join(cells))
            found.append(pytest.param(section, path, named, id=f"{section}-{path}"))
    return found


def parameters(section, path):
    """Return the parameters of a function, or of the constructor of a class, without `self`."""
    for name in MODULES[section]:
        found = pytest.importorskip(name)
        for part in path.split("."):
            found = getattr(found, part, None)
        if found is not None:
            function = found.__init__ if inspect.isclass(found) else found
            return set(inspect.signature(function).parameters) - {"self"}
    raise AssertionError(f"{section} has no {path}")


@pytest.mark.parametrize(("section", "path", "named"), tables())
def test_every_parameter_is_on_the_page(section, path, named):
    there = parameters(section, path)
    if path == "HerReplayBuffer":  # "Other parameters have the same names."
        there -= set(inspect.signature(HindsightReplayBuffer).parameters) - set(named)
    assert set(named) <= there if path in IN_PART else set(named) == there
    assert len(named) == len(set(named))


@pytest.mark.parametrize("section", [section for section in MODULES if "```py\n" in SECTIONS[section]])
def test_their_example_runs(section, tmp_path, monkeypatch):
    pytest.importorskip(MODULES[section][0])
    monkeypatch.chdir(tmp_path)
    (theirs,) = re.findall(r"```py\n(.*?)```", SECTIONS[section], re.DOTALL)
    exec(theirs, {})


@pytest.mark.parametrize("section", MODULES)
def test_the_version_on_the_page_is_the_installed_one(section):
    package = MODULES[section][0].split(".", maxsplit=1)[0]
    pytest.importorskip(package)
    if find_spec("cpprb") is None:
        pytest.skip("this is not the environment of the peers")
    assert f"{section} {version(package.replace('_', '-'))}" in " ".join(PAGE.split())
