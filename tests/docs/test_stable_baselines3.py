"""The page on Stable-Baselines3: its examples run."""

from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

from her_wrappers.integrations.sb3 import HerReplayBuffer
from tests.support.pages import names_after
from tests.support.sb3_versions import needs_n_steps

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "stable_baselines3.md").read_text()


@needs_n_steps
def test_the_examples_run_from_top_to_bottom(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = names_after(PAGE)
    assert isinstance(names["model"].replay_buffer, HerReplayBuffer)
    assert "Statistics(" in capsys.readouterr().out
    assert len(names["success_rates"]) == 3
    assert names["action"] in names["env"].action_space
