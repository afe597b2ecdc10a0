"""The benchmark of agents runs, and compares every agent with its bare steps."""

from __future__ import annotations

import re

from benchmarks import agents
from her_agents.algorithms import ALGORITHMS


def test_every_agent_is_measured_and_has_its_promise(tmp_path):
    page = tmp_path / "agents.md"
    agents.main(["--quick", "--out", str(page)])
    written = page.read_text(encoding="utf-8")
    for algo in ALGORITHMS:
        assert re.search(rf"^\| {algo} \| \d+ \| \d+ \| \d+\.\d\d \|$", written, re.MULTILINE)
        assert f"| {algo}: an update over the bare steps |" in written
