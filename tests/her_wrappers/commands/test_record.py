"""``her record`` and ``her inspect``."""

import json
import sys

import gymnasium as gym
import numpy as np
import pytest

from her_wrappers import Episode, EpisodeArchive
from her_wrappers.commands.inspect import summarize
from her_wrappers.goals import episode_limit
from her_wrappers.recording import shards
from tests.support.archived_episodes import assert_same_episodes
from tests.support.commands import her
from tests.support.counting import counting_episode
from tests.support.robot import Robot

REACH = ["record", "her_envs/PointReach-v0", "-o", "max_steps=5"]


def test_episodes_are_recorded_and_shown(tmp_path):
    result = her(*REACH, "--episodes", 7, "--out", tmp_path / "reach", "--seed", 3)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"7 episodes added; {tmp_path / 'reach'} has 7 episodes of 35 steps\n"
    archive = EpisodeArchive(tmp_path / "reach")
    assert [len(episode) for episode in archive] == [5] * 7
    assert all("is_success" in episode.infos for episode in archive)
    assert archive.source.kwargs["max_steps"] == 5
    output = her("inspect", tmp_path / "reach").output
    for part in (
        "her_envs/PointReach-v0 (max_steps=5)",
        "7 of 35 steps",
        "5 to 5, 5 on average",
        "0.0% terminated, 100.0% truncated",
        "0.0% in the last step, 0.0% once",
        "desired cells achieved",
    ):
        assert part in output


def test_equal_seeds_give_equal_archives_and_later_episodes_are_new(tmp_path):
    for name, counts in {"one": [4, 2], "other": [6], "unlike": [6]}.items():
        for episodes in counts:
            seed = 1 if name == "unlike" else 0
            recorded = her(*REACH, "--episodes", episodes, "--out", tmp_path / name, "--seed", seed)
            assert recorded.exit_code == 0
    one, other, unlike = (list(EpisodeArchive(tmp_path / name)) for name in ("one", "other", "unlike"))
    starts = [
        [e.observations["desired_goal"][0].tolist() for e in episodes] for episodes in (one, other, unlike)
    ]
    assert starts[0] == starts[1] != starts[2]
    assert len({tuple(goal) for goal in starts[0]}) == 6
    assert_same_episodes(one[:4], other[:4])


@pytest.fixture
def policies(tmp_path, monkeypatch):
    """Change to a folder with a module of policies."""
    (tmp_path / "agents.py").write_text(
        """
calls = 0

def right(observation):
    return [1, 0]

def tired(observation):
    global calls
    calls += 1
    if calls == 13:
        raise KeyboardInterrupt
    return [0, 0]

def broken(observation):
    global calls
    calls += 1
    return [0, 0] if calls < 8 else [0, 0, 0]
"""
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "agents", raising=False)


@pytest.mark.usefixtures("policies")
def test_a_policy_of_the_user_acts(tmp_path):
    assert her(*REACH, "--policy", "agents:right", "--episodes", 2, "--out", "right").exit_code == 0
    for episode in EpisodeArchive(tmp_path / "right"):
        assert episode.actions.tolist() == [[1, 0]] * 5


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
    result = her(*REACH, "--episodes", 4, "--out", tmp_path)
    assert result.exit_code == 3
    assert f"cannot record to {tmp_path}: [Errno 28] No space left on device" in result.output


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("name", ["Endless", "Forgetful", "EndsOnlyAtGoals"])
def test_endless_episodes_are_truncated_or_an_error(name, workers, tmp_path, monkeypatch):
    monkeypatch.setattr(episode_limit, "MAX_EPISODE_STEPS", 60)
    command = ["record", f"tests.support.other_envs:{name}", "--workers", workers, "--backend", "local"]
    endless = her(*command, "--out", tmp_path / "a")
    assert endless.exit_code == 3
    assert "did not end after 60 steps; pass --max-episode-steps N" in endless.stderr
    arguments = ["--max-episode-steps", 7, "--episodes", 4, "--seed", 0, "--out", tmp_path / "b"]
    assert her(*command, *arguments).exit_code == 0
    episodes = list(EpisodeArchive(tmp_path / "b"))
    assert [len(episode) for episode in episodes] == [7] * 4
    starts = {episode.observations["desired_goal"].tobytes() for episode in episodes}
    assert len(starts) == 4, "every episode begins with a reset"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["her_envs/PointReach-v0", "--policy", "ppo"], "must be random, a run, or module:function, got"),
        (["her_envs/PointReach-v0", "--info-keys", "cost"], "must name keys of the infos, got 'cost'"),
        (["CartPole-v1"], "has episodes with env_id her_envs/PointReach-v0, but env has env_id CartPole-v1"),
    ],
)
def test_wrong_usage_ends_with_exit_code_two_and_one_sentence(tmp_path, arguments, message):
    assert her(*REACH, "--episodes", 1, "--out", tmp_path).exit_code == 0
    result = her("record", *arguments, "--out", tmp_path)
    assert result.exit_code == 2
    assert message in result.output
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
    assert her("record", "CartPole-v1", "--episodes", 3, "--out", tmp_path, "--seed", 0).exit_code == 0
    assert "is_success was not recorded" in her("inspect", tmp_path).output


def test_json_has_null_for_returns_that_are_not_finite(tmp_path):
    rewards = np.array([np.nan, np.inf, 0])
    archive_of(tmp_path, [counting_episode(0, 3, rewards=rewards)])
    text = her("inspect", tmp_path, "--json").stdout
    found = json.loads(text, parse_constant=pytest.fail)
    assert found["returns"] == {"least": None, "mean": None, "most": None}
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
        "goals": {"desired": 4, "achieved": 16, "covered": 0.0},
    }


def episode_of(desired, achieved):
    observations = {"observation": np.zeros(3), "achieved_goal": achieved, "desired_goal": desired}
    return Episode(observations, np.zeros(2), np.zeros(2), terminated=False, truncated=True)


GOALS = {
    "bits": (np.array([[0, 0], [0, 1], [0, 0]]), np.array([[0, 0], [1, 1], [0, 0]]), (2, 2, 0.5)),
    "integers": (np.array([3, 5, 3]), np.array([5, 3, 5]), (2, 2, 1.0)),
    "floats": (np.array([0.0, 10, 10]), np.array([0.5, 5, 5]), (2, 2, 0.5)),
    "not finite": (np.array([np.nan, 1, 1]), np.array([0, np.inf, 0]), (2, 2, 0.5)),
    "words": (np.array(["a", "b", "c"]), np.array(["a", "bcd", "c"]), (3, 3, 2 / 3)),
    "shapes differ": (np.zeros((3, 2)), np.zeros((3, 3)), None),
    "empty": ({}, {}, None),
}


@pytest.mark.parametrize("name", GOALS)
def test_coverage_counts_cells_of_goals(tmp_path, name):
    desired, achieved, expected = GOALS[name]
    coverage = summarize(archive_of(tmp_path, [episode_of(desired, achieved)]))["goals"]
    assert (coverage and tuple(coverage.values())) == expected


def record_with_workers(out, *options):
    arguments = ["-o", "max_steps=9", "--episodes", 25, "--seed", 3, "--workers", 2, "--out", out]
    return her("record", "her_envs/PointReach-v0", *arguments, *options)


def test_processes_record_the_archive_of_one_process(tmp_path):
    for backend in ("local", "process"):
        result = record_with_workers(tmp_path / backend, "--backend", backend)
        assert result.exit_code == 0, result.output
        assert "25 episodes added" in result.output
    assert_same_episodes(EpisodeArchive(tmp_path / "local"), EpisodeArchive(tmp_path / "process"))


def test_a_policy_of_the_present_folder_acts_in_the_workers(tmp_path, monkeypatch):
    (tmp_path / "of_a_user.py").write_text(
        "def to_goal(observation):\n"
        "    assert observation['desired_goal'].shape == (2,)\n"
        "    return (observation['desired_goal'] - observation['achieved_goal']).clip(-1, 1)\n"
    )
    monkeypatch.chdir(tmp_path)
    result = record_with_workers(tmp_path / "out", "--backend", "process", "--policy", "of_a_user:to_goal")
    assert result.exit_code == 0, result.output
    for episode in EpisodeArchive(tmp_path / "out"):
        first = {key: rows[0] for key, rows in episode.observations.items()}
        way = first["desired_goal"] - first["achieved_goal"]
        np.testing.assert_allclose(episode.actions[0], way.clip(-1, 1), rtol=1e-6)


@pytest.mark.usefixtures("policies")
@pytest.mark.parametrize("workers", [0, 1])
def test_noise_is_added_to_the_actions_of_a_policy(tmp_path, workers):
    command = [*REACH, "--policy", "agents:right", "--episodes", 4, "--workers", workers]
    command += ["--backend", "local"]
    for name, seed in {"one": 0, "same": 0, "other": 1}.items():
        assert her(*command, "--noise", 0.1, "--seed", seed, "--out", name).exit_code == 0
    one, same, other = (
        np.concatenate([episode.actions for episode in EpisodeArchive(tmp_path / name)])
        for name in ("one", "same", "other")
    )
    assert (one == same).all()
    assert (one != other).any()
    assert 0.02 < np.abs(one - [1, 0])[:, 1].mean() < 0.3
    assert one.max() <= 1
    assert her(*command, "--noise", -1, "--out", "wrong").exit_code == 2


@pytest.mark.parametrize("workers", [0, 1])
def test_only_successes_are_recorded(tmp_path, workers, monkeypatch):
    """Each third episode of this environment ends with a success."""
    command = ["record", "her_envs/BitFlipping-v0", "-o", "n_bits=2", "--only-successes"]
    command += ["--backend", "local", "--workers", workers]
    result = her(*command, "--episodes", 5, "--seed", 0, "--out", tmp_path / "some")
    assert result.exit_code == 0, result.output
    episodes = list(EpisodeArchive(tmp_path / "some"))
    assert [bool(episode.infos["is_success"][-1]) for episode in episodes] == [True] * 5
    monkeypatch.setattr("her_wrappers.commands.record.MAX_TRIES", 1)
    result = her(*command, "--episodes", 9, "--seed", 0, "--out", tmp_path / "few")
    assert result.exit_code == 3
    assert "must succeed; pass a better --policy, or a lower --noise" in result.stderr


@pytest.mark.parametrize("workers", [0, 1])
def test_successes_are_recorded_once_if_the_command_runs_again_with_the_same_seed(workers, tmp_path):
    words = ["her_envs/BitFlipping-v0", "-o", "n_bits=4", "--only-successes", "--episodes", 4, "--seed", 0]
    words += ["--out", tmp_path / "a", "--workers", workers, "--backend", "local"]
    for _ in range(3):
        assert her("record", *words).exit_code == 0
    found = {
        b"".join(array.tobytes() for array in (*each.observations.values(), each.actions))
        for each in EpisodeArchive(tmp_path / "a")
    }
    assert len(found) == 12


@pytest.mark.parametrize("name", ["Strict", "MaskInInfo", "MaskMethod"])
def test_random_actions_respect_a_mask(name, tmp_path, monkeypatch):
    """An invalid action raises in these environments; the mask is in the observation, info or a method."""
    monkeypatch.chdir(tmp_path)
    env = f"tests.support.specimens.masks:{name}"
    result = her("record", env, "--episodes", 20, "--out", "random", "--seed", 0)
    assert result.exit_code == 0, result.output
    assert ("action_mask" in next(iter(EpisodeArchive("random"))).observations) == (name == "Strict")
    assert her("evaluate", "random", "--env", env, "--episodes", 10).exit_code == 0
    (tmp_path / "ups.py").write_text(
        "def first(observation):\n    return observation.get('action_mask', [1]).argmax()"
    )
    noisy = ["record", env, "--policy", "ups.py:first", "--noise", 0.5, "--episodes", 10, "--out", "noisy"]
    assert name != "Strict" or her(*noisy).exit_code == 0


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
    result = her("record", *words, "--out", "a")
    assert result.exit_code == 0, result.output
    assert Robot.instances == before + 1
    first, second = EpisodeArchive("a")
    assert first.infos["intervened"].nonzero()[0].tolist() == [0, 2]
    assert not second.infos["intervened"].any()
    for t in (0, 2):
        toward = (first.observations["desired_goal"] - first.observations["achieved_goal"])[t]
        np.testing.assert_allclose(first.actions[t], toward.clip(-1, 1), rtol=1e-6)
    wrong = her("record", *words[:-1], "wrong", "--out", "b")
    assert "wrong" in wrong.stderr
    assert her("record", *words, "--out", "b", "--workers", 1).exit_code == 2
