"""`her record --workers`: the same archive from every backend."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers import EpisodeArchive
from tests.support.commands import her
from tests.support.equality import assert_same_episodes


def record(out, *options):
    arguments = ["-o", "max_steps=9", "--episodes", 25, "--seed", 3, "--workers", 2, "--out", out]
    return her("record", "her_envs/PointReach-v0", *arguments, *options)


def test_processes_record_the_archive_of_one_process(tmp_path):
    for backend in ("local", "process"):
        result = record(tmp_path / backend, "--backend", backend)
        assert result.exit_code == 0, result.output
        assert "25 episodes added" in result.output
    assert_same_episodes(EpisodeArchive(tmp_path / "local"), EpisodeArchive(tmp_path / "process"))


def test_more_episodes_are_others(tmp_path):
    for _ in range(2):
        assert record(tmp_path, "--backend", "local").exit_code == 0
    starts = {episode.observations["observation"][0].tobytes() for episode in EpisodeArchive(tmp_path)}
    assert len(starts) == 50


def test_a_policy_of_the_present_folder_acts_in_the_workers(tmp_path, monkeypatch):
    (tmp_path / "of_a_user.py").write_text(
        "def to_goal(observation):\n"
        "    assert observation['desired_goal'].shape == (2,)\n"
        "    return (observation['desired_goal'] - observation['achieved_goal']).clip(-1, 1)\n"
    )
    monkeypatch.chdir(tmp_path)
    result = record(tmp_path / "out", "--backend", "process", "--policy", "of_a_user:to_goal")
    assert result.exit_code == 0, result.output
    for episode in EpisodeArchive(tmp_path / "out"):
        first = {key: rows[0] for key, rows in episode.observations.items()}
        way = first["desired_goal"] - first["achieved_goal"]
        np.testing.assert_allclose(episode.actions[0], way.clip(-1, 1), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--backend", "mpi"), 2, "--backend"),
        (("--backend", "local", "--policy", "math:sqrt"), 3, "worker 0 failed 3 times in round 0"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, options, code, message):
    result = record(tmp_path, *options)
    assert result.exit_code == code, result.output
    assert message in result.output
