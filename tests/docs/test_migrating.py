"""The page on migration: its examples with her-toolkit run."""

from pathlib import Path

import pytest

from tests.support.pages import names_after

PAGE = (Path(__file__).parents[2] / "docs" / "migrating.md").read_text()
SECTIONS = dict(section.split("\n", 1) for section in PAGE.split("\n## ")[1:])


@pytest.fixture(autouse=True, name="folder")
def work_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(section):
    """Run the examples with her-toolkit of a section and return the names that they define."""
    return names_after(SECTIONS[section])


def test_from_cpprb():
    names = run("cpprb")
    assert len(names["buffer"]) == 50
    batch = names["buffer"].sample(100)
    after = batch.next_observations
    expected = names["reward"](after["observation"], batch.actions, after["desired_goal"])
    assert batch.rewards == pytest.approx(expected, abs=1e-6)
    assert names["batch"].weights.shape == (32,)


def test_from_tianshou():
    names = run("Tianshou")
    assert len(names["buffer"]) == 500
    assert names["batch"].relabeled.sum() == 256 * 7 // 8
    assert names["targets"].shape == (256,)
