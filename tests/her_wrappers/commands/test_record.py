"""``her record`` and ``her inspect``."""

import importlib
import sys

import gymnasium as gym
import numpy as np
import pytest

from her_wrappers import EpisodeArchive
from her_wrappers.commands.inspect import summarize
from her_wrappers.goals import episode_limit
from her_wrappers.recording import shards
from tests.support.archived_episodes import assert_same_episodes
from tests.support.commands import fails, her, succeeds
from tests.support.counting import counting_episode
from tests.support.robot import Robot

REACH = ["record", "her_envs/PointReach-v0", "-o", "max_steps=5"]


def test_episodes_are_recorded_and_shown(tmp_path):
    output = succeeds(*REACH, "--episodes", 7, "--out", tmp_path / "reach", "--seed", 3)
    assert output == f"7 episodes added; {tmp_path / 'reach'} has 7 episodes of 35 steps\n"
    archive = EpisodeArchive(tmp_path / "reach")
    assert [len(episode) for episode in archive] == [5] * 7
    assert all("is_success" in episode.infos for episode in archive)
    assert archive.source.kwargs["max_steps"] == 5
    output = succeeds("inspect", tmp_path / "reach")
    parts = ["her_envs/PointReach-v0 (max_steps=5)", "7 of 35 steps", "5 to 5, 5 on average"]
    parts += ["0.0% terminated, 100.0% truncated", "0.0% in the last step, 0.0% once"]
    assert [part for part in parts if part not in output] == []


def test_equal_seeds_give_equal_archives_and_later_episodes_are_new(tmp_path):
    for name, counts in {"one": [4, 2], "other": [6], "unlike": [6]}.items():
        for episodes in counts:
            seed = int(name == "unlike")
            succeeds(*REACH, "--episodes", episodes, "--out", tmp_path / name, "--seed", seed)
    archives = [list(EpisodeArchive(tmp_path / name)) for name in ("one", "other", "unlike")]
    goals = [[tuple(each.observations["desired_goal"][0]) for each in episodes] for episodes in archives]
    assert goals[0] == goals[1] != goals[2]
    assert len({*goals[0]}) == 6
    assert_same_episodes(archives[0][:4], archives[1][:4])


POLICIES = """
calls = iter(range(99))

def right(observation):
    return [1, 0]

def tired(observation):
    if next(calls) == 12:
        raise KeyboardInterrupt
    return [0, 0]

def broken(observation):
    return [0, 0] if next(calls) < 7 else [0, 0, 0]
"""


@pytest.fixture
def policies(tmp_path, monkeypatch):
    """Change to a folder with a module of policies."""
    (tmp_path / "agents.py").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "agents", raising=False)


@pytest.mark.usefixtures("policies")
def test_ctrl_c_keeps_the_recorded_episodes(tmp_path):
    result = her(*REACH, "--policy", "agents:tired", "--out", "out")
    assert result.exit_code == 130
    assert result.stdout == "interrupted: 3 episodes added; out has 3 episodes of 12 steps\n"
    assert [len(episode) for episode in EpisodeArchive(tmp_path / "out")] == [5, 5, 2]


@pytest.mark.usefixtures("policies")
def test_an_error_of_a_policy_keeps_the_recorded_episodes(tmp_path):
    result = her(*REACH, "--policy", "agents:broken", "--out", "out")
    assert result.exit_code == 3
    message = " ".join(result.stderr.split())
    assert message.startswith("Error: the policy must return an action of Box(")
    assert message.endswith("got an array of shape (3,)")
    assert [len(episode) for episode in EpisodeArchive(tmp_path / "out")] == [5, 2]


@pytest.mark.parametrize("shard_bytes", [1, 2**26])
def test_a_full_disk_gives_an_error_of_one_sentence(tmp_path, monkeypatch, shard_bytes):
    """The error occurs during the recording or when the archive is closed."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shards, "write_shard", full)
    monkeypatch.setattr(shards, "SHARD_BYTES", shard_bytes)
    message = f"cannot record to {tmp_path}: [Errno 28] No space left on device"
    fails(3, message, *REACH, "--episodes", 4, "--out", tmp_path)


@pytest.mark.parametrize(("name", "workers"), [("Endless", 0), ("Forgetful", 1), ("EndsOnlyAtGoals", 0)])
def test_endless_episodes_are_truncated_or_an_error(name, workers, tmp_path, monkeypatch):
    monkeypatch.setattr(episode_limit, "MAX_EPISODE_STEPS", 60)
    command = ["record", f"tests.support.other_envs:{name}", "--workers", workers, "--backend", "local"]
    message = "did not end after 60 steps; pass --max-episode-steps N"
    fails(3, message, *command, "--out", tmp_path / "a")
    arguments = ["--max-episode-steps", 7, "--episodes", 4, "--seed", 0, "--out", tmp_path / "b"]
    succeeds(*command, *arguments)
    episodes = list(EpisodeArchive(tmp_path / "b"))
    assert [len(episode) for episode in episodes] == [7] * 4
    starts = {episode.observations["desired_goal"].tobytes() for episode in episodes}
    assert len(starts) == 4, "every episode begins with a reset"


def test_episodes_of_another_environment_are_not_added_to_an_archive(tmp_path):
    succeeds(*REACH, "--episodes", 1, "--out", tmp_path)
    message = "has episodes with env_id her_envs/PointReach-v0, but env has env_id CartPole-v1"
    fails(2, message, "record", "CartPole-v1", "--out", tmp_path)
    assert len(EpisodeArchive(tmp_path)) == 1


def test_an_empty_archive_is_shown_as_empty(tmp_path):
    EpisodeArchive(tmp_path, env=gym.make("her_envs/PointReach-v0")).close()
    assert summarize(EpisodeArchive(tmp_path)) == {"episodes": 0, "steps": 0}
    assert "0 of 0 steps" in her("inspect", tmp_path).output


def archive_of(folder, episodes):
    with EpisodeArchive(folder, shard_steps=3) as archive:
        archive.add_episodes(episodes)
    return archive


def test_environments_without_goals_are_recorded_and_shown(tmp_path):
    succeeds("record", "CartPole-v1", "--episodes", 3, "--out", tmp_path, "--seed", 0)
    assert "is_success was not recorded" in her("inspect", tmp_path).output


def test_returns_that_are_not_finite_are_shown(tmp_path):
    archive_of(tmp_path, [counting_episode(0, 3, rewards=np.array([np.nan, np.inf, 0]))])
    assert "nan on average" in her("inspect", tmp_path).output


def test_a_summary_has_counts_ranges_and_shares(tmp_path):
    flags = [[0, 1], [1, 1, 1, 0], [0, 0, 1], [0, 0, 0]]
    first = {"terminated": True, "rewards": np.array([-1.0, 0])}
    episodes = [
        counting_episode(i, len(each), infos={"is_success": np.array(each)}, **({} if i else first))
        for i, each in enumerate(flags)
    ]
    summary = summarize(archive_of(tmp_path, episodes))
    assert summary == {
        "episodes": 4,
        "steps": 12,
        "lengths": {"least": 2, "mean": 3, "most": 4},
        "returns": {"least": -4, "mean": -11 / 4, "most": -1},
        "terminated": 0.25,
        "truncated": 0.75,
        "success": 0.5,
        "success_once": 0.75,
    }


def test_processes_record_the_archive_of_one_process_with_a_policy_of_the_folder(tmp_path, monkeypatch):
    (tmp_path / "of_a_user.py").write_text(
        "def to_goal(observation):\n"
        "    assert observation['desired_goal'].shape == (2,)\n"
        "    return (observation['desired_goal'] - observation['achieved_goal']).clip(-1, 1)\n"
    )
    monkeypatch.chdir(tmp_path)
    for backend in ("local", "process"):
        words = ["--episodes", 25, "--seed", 3, "--workers", 2, "--backend", backend, "--out", backend]
        assert "25 episodes added" in succeeds(*REACH, *words, "--policy", "of_a_user:to_goal")
    assert_same_episodes(EpisodeArchive("local"), EpisodeArchive("process"))
    for episode in EpisodeArchive("local"):
        first = {key: rows[0] for key, rows in episode.observations.items()}
        way = first["desired_goal"] - first["achieved_goal"]
        np.testing.assert_allclose(episode.actions[0], way.clip(-1, 1), rtol=1e-6)


@pytest.mark.usefixtures("policies")
@pytest.mark.parametrize("workers", [0, 1])
def test_noise_is_added_to_the_actions_of_a_policy(tmp_path, workers):
    command = [*REACH, "--policy", "agents:right", "--episodes", 4, "--workers", workers]
    command += ["--backend", "local"]
    for name, seed in {"one": 0, "same": 0, "other": 1}.items():
        succeeds(*command, "--noise", 0.1, "--seed", seed, "--out", name)
    one, same, other = (
        np.concatenate([episode.actions for episode in EpisodeArchive(tmp_path / name)])
        for name in ("one", "same", "other")
    )
    assert (one == same).all()
    assert (one != other).any()
    assert 0.02 < np.abs(one - [1, 0])[:, 1].mean() < 0.3
    assert one.max() <= 1
    fails(2, "--noise", *command, "--noise", -1, "--out", "wrong")


@pytest.mark.parametrize("workers", [0, 1])
def test_only_successes_are_recorded_each_once_also_by_further_commands(tmp_path, workers, monkeypatch):
    words = ["her_envs/BitFlipping-v0", "-o", "n_bits=4", "--only-successes", "--episodes", 4, "--seed", 0]
    words += ["--workers", workers, "--backend", "local"]
    for _ in range(3):
        succeeds("record", *words, "--out", tmp_path / "a")
    episodes = list(EpisodeArchive(tmp_path / "a"))
    assert [bool(episode.infos["is_success"][-1]) for episode in episodes] == [True] * 12
    arrays = [(*each.observations.values(), each.actions) for each in episodes]
    assert len({b"".join(array.tobytes() for array in each) for each in arrays}) == 12
    monkeypatch.setattr(importlib.import_module("her_wrappers.commands.record"), "MAX_TRIES", 1)
    message = "must succeed; pass a better --policy, or a lower --noise"
    fails(3, message, "record", *words, "--out", tmp_path / "few")


@pytest.mark.parametrize("name", ["Strict", "MaskInInfo", "MaskMethod"])
def test_random_actions_respect_a_mask(name, tmp_path, monkeypatch):
    """An invalid action raises in these environments; the mask is in the observation, info or a method."""
    monkeypatch.chdir(tmp_path)
    env = f"tests.support.specimens.masks:{name}"
    succeeds("record", env, "--episodes", 20, "--out", "random", "--seed", 0)
    assert ("action_mask" in next(iter(EpisodeArchive("random"))).observations) == (name == "Strict")
    succeeds("evaluate", "random", "--env", env, "--episodes", 10)
    if name == "Strict":
        (tmp_path / "ups.py").write_text("def first(obs):\n    return obs['action_mask'].argmax()")
        noisy = ["--policy", "ups.py:first", "--noise", 0.5, "--episodes", 10, "--out", "noisy"]
        succeeds("record", env, *noisy)


def test_a_robot_is_recorded_without_a_second_one_and_with_its_executed_actions(tmp_path, monkeypatch):
    (tmp_path / "arm.py").write_text(
        "from her_wrappers import RealRobot\n"
        "from tests.support.robot import Robot\n"
        "def make():\n"
        "    return RealRobot(Robot(hz=1000, intervened={1, 3}), action_key='intervene_action')\n"
    )
    monkeypatch.chdir(tmp_path)
    before = Robot.instances
    words = ["arm.py:make", "--episodes", 2, "--info-keys", "intervened"]
    succeeds("record", *words, "--out", "a")
    assert Robot.instances == before + 1
    first, second = EpisodeArchive("a")
    assert first.infos["intervened"].nonzero()[0].tolist() == [0, 2]
    assert not second.infos["intervened"].any()
    for t in (0, 2):
        toward = (first.observations["desired_goal"] - first.observations["achieved_goal"])[t]
        np.testing.assert_allclose(first.actions[t], toward.clip(-1, 1), rtol=1e-6)
    fails(3, "wrong", "record", *words[:-1], "wrong", "--out", "b")
    fails(2, "remove --workers", "record", *words, "--out", "b", "--workers", 1)
