"""Imports go from higher to lower folders only, and no package imports the packages of extras."""

import subprocess
import sys
from pathlib import Path

import pytest


def test_each_folder_imports_only_folders_below_it(monkeypatch):
    """`pyproject.toml` has the order, which `make lint` checks too."""
    importlinter = pytest.importorskip("importlinter.cli", reason="import-linter is missing: the extra test")
    monkeypatch.chdir(Path(__file__).parents[1])
    assert importlinter.lint_imports(no_cache=True) == importlinter.EXIT_STATUS_SUCCESS


@pytest.mark.parametrize(
    "package",
    [
        "her_envs",
        "her_wrappers",
        "her_wrappers.cli",
        "her_agents",
        "her_wrappers.collecting",
        "her_wrappers.integrations.minari",
    ],
)
def test_importing_a_package_imports_no_extra(package):
    extras = {"torch", "pygame", "minari", "h5py", "ray"}
    code = f"import sys, {package}; sys.exit(bool({extras} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
