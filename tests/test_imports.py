"""No package imports the packages of extras; `make lint` checks the directions of imports."""

import subprocess
import sys

PACKAGES = [
    "her_envs",
    "her_wrappers",
    "her_wrappers.cli",
    "her_agents",
    "her_wrappers.collecting",
    "her_wrappers.integrations.minari",
]


def test_importing_the_packages_imports_no_extra():
    extras = {"torch", "pygame", "minari", "h5py", "ray"}
    code = f"import sys, {', '.join(PACKAGES)}; print({extras} & sys.modules.keys())"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "set()\n"
