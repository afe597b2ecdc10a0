"""Runs that learn from recorded episodes: archives, saved buffers, Minari datasets, and resuming."""

import warnings
from contextlib import closing

import gymnasium as gym
import numpy as np
import pytest

from her_agents.training.config import make_config
from her_agents.training.logs import is_solved
from her_agents.training.loop import train
from her_agents.training.run import open_run
from her_wrappers import EpisodeArchive, EpisodeRecorder, HindsightReplayBuffer
from her_wrappers.integrations.minari import to_minari
from tests.support.short_runs import assert_resumes, tiny

ENV = "her_envs/PointReach-v0"


def record_actions(folder, episodes, action=None, **options):
    """Return an archive of episodes of one action, or of random actions."""
    env = gym.make(ENV, **options)
    env.action_space.seed(0)
    with EpisodeArchive(folder, env=env) as archive:
        recorder = EpisodeRecorder(env, archive)
        for seed in range(episodes):
            recorder.reset(seed=seed)
            while not any(recorder.step(env.action_space.sample() if action is None else action)[2:4]):
                pass
    return EpisodeArchive(folder)


@pytest.fixture(name="archive", scope="module")
def recorded_archive(tmp_path_factory):
    return record_actions(tmp_path_factory.mktemp("archive") / "random", 20, max_steps=9)


def offline(name, **options):
    return tiny("iql", offline=str(name), steps=60, steps_per_epoch=20, **options)


def stored(config):
    with closing(open_run(config)) as run:
        return sorted(episode.rewards.sum() for episode in run.buffer.episodes())


def test_recorded_actions_are_imitated(tmp_path):
    """All recorded actions are 0.5, and the critic, which is hardly trained, prefers half of them."""
    record_actions(tmp_path, 9, np.full(2, 0.5, np.float32), max_steps=9)
    observation, _ = gym.make_vec(ENV, num_envs=50).reset(seed=0)
    distance = {}
    options = {"algo": "td3", "env": ENV, "env_kwargs": {"max_steps": 9}}
    for weight in (0.0, 100.0):
        config = offline(tmp_path, **options, agent={"bc_weight": weight, "hidden": [64, 64, 64]})
        agent = train(config, on_epoch=None).agent
        distance[weight] = np.abs(agent.act(observation) - 0.5).mean()
    assert distance[100.0] < 0.6 * distance[0.0]


def test_the_buffer_has_the_episodes_of_an_archive_a_saved_buffer_or_a_dataset(
    archive, tmp_path, monkeypatch
):
    pytest.importorskip("minari", reason="the extra `minari` is not installed")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    env = gym.make(ENV, max_steps=9)
    buffer = HindsightReplayBuffer.for_env(env, buffer_size=1_000)
    buffer.extend(archive)
    buffer.save(tmp_path / "saved.replay")
    with warnings.catch_warnings(action="ignore"):  # about missing metadata
        to_minari(archive, "reach/random-v0", env)
    expected = sorted(episode.rewards.sum() for episode in archive)
    for name in (archive.path, tmp_path / "saved.replay", "reach/random-v0"):
        np.testing.assert_allclose(stored(offline(name)), expected)


def test_updates_are_counted_and_a_resumed_run_equals_an_uninterrupted_one(archive, tmp_path):
    rows = assert_resumes(offline(archive.path), tmp_path).history
    assert [(row["epoch"], row["updates"], row["env_steps"]) for row in rows] == [
        (1, 20, 0),
        (2, 40, 0),
        (3, 60, 0),
    ]
    assert "value_loss" in rows[-1]
    assert "collected_success" not in rows[-1], "only evaluations step the environment"
    with pytest.raises(ValueError, match=r"steps=60 is too small .* already has 60 steps; pass more"):
        train(offline(archive.path), folder=tmp_path, resume=True)


@pytest.mark.slow
def test_iql_solves_point_reach_from_random_actions(tmp_path):
    config = make_config({
        "offline": str(record_actions(tmp_path / "random", 200).path),
        "algo": "iql",
        "steps": 4_000,
        "steps_per_epoch": 500,
    })
    result = train(config, on_epoch=None, stop=is_solved)
    assert result.best_success >= 0.9


def test_the_environment_of_an_archive_is_the_default(archive):
    config = make_config({"offline": str(archive.path), "algo": "iql"})
    assert (config.env, config.env_kwargs) == (ENV, {"max_steps": 9})


def test_offline_options_that_contradict_each_other_raise_an_error():
    with pytest.raises(ValueError, match="algo='iql' learns only from recorded episodes, got offline=None"):
        make_config({"env": ENV, "algo": "iql"})
    with pytest.raises(ValueError, match=r"workers must be 0 in offline training \(.*\), got 2"):
        offline("a", workers=2)


def test_unusable_episodes_raise_an_error_with_the_name(archive, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").write_text("not a buffer")
    with EpisodeArchive(tmp_path / "none", env=gym.make(ENV)):
        pass
    for name in ("empty", "other", "none", "missing"):
        with pytest.raises(ValueError, match=f"offline='.*{name}'"):
            train(offline(tmp_path / name), on_epoch=None)
    with pytest.raises(ValueError, match=r"offline='.*' cannot be used"):
        train(offline(archive.path, env="her_envs/PointPush-v0", env_kwargs={}), on_epoch=None)
