"""The page on migration: its examples with her-toolkit run, and the names in its tables exist."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from her_wrappers import Batch, HindsightReplayBuffer, Priority, relabel_episode
from her_wrappers.goal_interface import GOAL_KEYS
from tests.support.pages import names_after

PAGE = (Path(__file__).parents[2] / "docs" / "migrating.md").read_text()
SECTIONS = dict(section.split("\n", 1) for section in PAGE.split("\n## ")[1:])
THEIRS = {
    "Stable-Baselines3": "# Stable-Baselines3\n",
    "stable-baselines (version 2)": "# stable-baselines 2\n",
    "cpprb": "# cpprb\n",
    "RLLTE": "# RLLTE\n",
    "Tianshou": "# Tianshou\n",
    "TorchRL": "# TorchRL\n",
}


@pytest.fixture(autouse=True, name="folder")
def work_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(section):
    """Run the examples with her-toolkit of a section and return the names that they define."""
    return names_after(SECTIONS[section])


@pytest.mark.parametrize("section", THEIRS)
def test_each_section_has_both_examples_and_a_table_of_parameters(section):
    (theirs,) = re.findall(r"```py\n(.*?)```", SECTIONS[section], re.DOTALL)
    assert theirs.startswith(THEIRS[section])
    compile(theirs, section, "exec")
    assert SECTIONS[section].count("```python\n") >= 1
    assert re.search(r"^\| `\w+` \| here \| remark \|$", SECTIONS[section], re.MULTILINE)
    assert "Differences:" in SECTIONS[section]


def test_every_section_is_tested():
    assert SECTIONS.keys() == THEIRS.keys()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:an episode terminated at its goal")
def test_from_stable_baselines3():
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: the extra sb3")
    names = run("Stable-Baselines3")
    assert len(names["buffer"]) >= 290
    assert names["buffer"].sample(100).relabeled.sum() == 80
    assert len(names["model"].replay_buffer.hindsight) >= 290


def test_from_stable_baselines():
    names = run("stable-baselines (version 2)")
    batches = names["stored"]
    assert len(batches) == 10
    for batch in batches:
        assert len(batch) % 4 == 0
        assert (batch.terminations == (batch.rewards == 0)).all()
    assert names["buffer"].num_episodes == 19 * 2
    assert len(names["batch"]) == 19 * 256


def test_from_cpprb():
    names = run("cpprb")
    assert len(names["buffer"]) == 50
    batch = names["buffer"].sample(100)
    after = batch.next_observations
    expected = names["reward"](after["observation"], batch.actions, after["desired_goal"])
    assert batch.rewards == pytest.approx(expected, abs=1e-6)
    assert names["batch"].weights.shape == (32,)


def test_from_rllte():
    names = run("RLLTE")
    assert names["buffer"].num_episodes == 3 * (100 // 16)
    assert names["batch"].rewards.shape == (64,)


def test_from_tianshou():
    names = run("Tianshou")
    assert len(names["buffer"]) == 500
    assert names["batch"].relabeled.sum() == 256 * 7 // 8
    assert names["targets"].shape == (256,)


def test_from_torchrl():
    names = run("TorchRL")
    assert len(names["buffer"]) == 4
    assert names["batch"].rewards.shape == (4,)


def test_the_names_of_her_toolkit_exist():
    buffer = HindsightReplayBuffer
    functions = (
        buffer,
        buffer.sample,
        buffer.add,
        buffer.update_priorities,
        relabel_episode,
        Priority,
        Batch,
    )
    known = {name for function in functions for name in inspect.signature(function).parameters}
    columns = re.findall(r"^\|[^|]*\|([^|]*)\|[^|]*\|$", PAGE, re.MULTILINE)
    named = {name for column in columns for name in re.findall(r"`(\w+)(?:=[^`]*)?`", column)}
    theirs = {"HERReplayBuffer"}  # a class of the other library with the same arguments
    assert named - theirs <= known | set(dir(buffer)) | set(GOAL_KEYS)
    assert len(named) > 20
