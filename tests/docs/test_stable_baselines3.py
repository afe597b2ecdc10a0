"""The page on Stable-Baselines3: its examples run, and it has every argument and attribute."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")

from her_wrappers.integrations.sb3 import FORMER_ARGUMENTS, SB3_ARRAYS, HerReplayBuffer
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


def test_every_argument_has_a_row():
    rows = "".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE))
    for name in [*inspect.signature(HerReplayBuffer).parameters, *FORMER_ARGUMENTS]:
        assert f"`{name}`" in rows, name


def test_every_missing_array_and_every_public_attribute_is_on_the_page():
    import gymnasium as gym  # noqa: PLC0415 - only this test needs it
    from stable_baselines3 import SAC  # noqa: PLC0415

    options = {"replay_buffer_class": HerReplayBuffer, "buffer_size": 10}
    buffer = SAC("MultiInputPolicy", gym.make("her_envs:her_envs/PointReach-v0"), **options).replay_buffer
    public = [name for name in vars(buffer) if not name.startswith("_")]
    for name in (*SB3_ARRAYS, *public, "dones"):
        assert re.search(rf"`(buffer\.)?{name}`", PAGE), name
