"""Importing a package, or the command, does not import the packages of extras; see also `make lint`."""

import subprocess
import sys

import pytest


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
