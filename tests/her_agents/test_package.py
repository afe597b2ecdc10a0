"""The package: its public names, and its error without torch."""

import subprocess
import sys

import pytest

import her_agents


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'her_agents' has no attribute 'PPO'"):
        _ = her_agents.PPO


def test_without_torch_the_error_names_the_extra():
    code = "import sys; sys.modules['torch'] = None; from her_agents import load_agent"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'her_agents needs torch; run: pip install "her-toolkit[agents]"' in result.stderr
