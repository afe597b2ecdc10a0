"""The benchmark of agents: it compares the update of every agent with its learning step."""

import re

import pytest
import torch

from benchmarks import agents
from her_agents.algorithms.registry import ALGORITHMS


@pytest.fixture
def _subnormal_numbers_afterwards():
    """Undo the flushing of subnormal numbers, with which hypothesis makes no floats."""
    yield
    torch.set_flush_denormal(False)


@pytest.mark.usefixtures("_subnormal_numbers_afterwards")
def test_measures_every_agent_and_states_its_requirement(tmp_path):
    page = tmp_path / "agents.md"
    agents.main(["--quick", "--out", str(page)])
    written = page.read_text(encoding="utf-8")
    for algo in ALGORITHMS:
        assert re.search(rf"^\| {algo} \| \d+ \| \d+ \| \d+\.\d\d \|$", written, re.MULTILINE)
