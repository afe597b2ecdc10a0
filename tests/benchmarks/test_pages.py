"""Quick runs of benchmarks: the page has a row for each compared variant."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

from benchmarks.replay_buffers import installed_peers
from benchmarks.timing import Timing
from her_agents.algorithms.registry import ALGORITHMS

SHORT = Timing(turns=2, seconds=0.0)
PEERS = [peer.name for peer in installed_peers()[0]]
PAGES = {
    "agents": ([], {"her-toolkit", "stable-baselines3", *ALGORITHMS}),
    "doctor": ([], {"wall-clock time [s]", "processor time [s]"}),
    "env_speed": ([], {"PointReach single", "SB3 BitFlippingEnv sync x64", "PointMaze-v0 native x4096"}),
    "real_time": ([], {"a loop that sleeps", "`--real`, 1 update for each step"}),
    "replay": ([], {"her-toolkit", "her-toolkit, to_torch()", *PEERS, *installed_peers()[1]}),
    "replay_gpu": ([], {"1", "64"}),
    "replay_priorities": ([], {"her-toolkit"}),
    "sb3_success": ([], {"Stable-Baselines3", 'her_wrappers, termination="keep"'}),
}


@pytest.fixture
def _settings_afterwards():
    """Undo settings of torch and NumPy: hypothesis makes no floats if subnormal numbers are flushed."""
    threads, state = torch.get_num_threads(), np.random.get_state()  # noqa: NPY002
    yield
    torch.set_flush_denormal(False)
    torch.set_num_threads(threads)
    np.random.set_state(state)  # noqa: NPY002


@pytest.mark.usefixtures("_settings_afterwards")
@pytest.mark.parametrize("name", PAGES)
def test_a_quick_run_writes_a_page_with_a_row_for_each_variant(name, tmp_path, monkeypatch):
    module, (arguments, expected) = import_module(f"benchmarks.{name}"), PAGES[name]
    if quick := getattr(module, "QUICK", None):
        short = SHORT if isinstance(quick, Timing) else replace(quick, timing=SHORT)
        monkeypatch.setattr(module, "QUICK", short)
    smaller = {"real_time": ("PERIOD", 0.002), "agents": ("EPISODES", 3)}
    if name in smaller:
        monkeypatch.setattr(module, *smaller[name])
    page = tmp_path / "page.md"
    module.main(["--quick", "--out", str(page), *arguments])
    rows = [line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| ")]
    assert expected <= {row[0].removeprefix("| ") for row in rows}
    assert "nan" not in page.read_text()
