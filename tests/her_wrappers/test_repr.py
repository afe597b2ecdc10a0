"""The repr of objects that users print is one readable line."""

import gymnasium as gym
import pytest

import her_envs  # noqa: F401 - registers PointReach
from her_wrappers import EpisodeArchive, EpisodeRecorder, Episodes, HindsightReplayBuffer, check_goal_env
from her_wrappers.conformance import check_replay
from her_wrappers.conformance.adapters.ours import Ours


@pytest.fixture
def recorded(tmp_path):
    """A replay buffer and an archive with the same two episodes of four steps."""
    env = gym.make("her_envs/PointReach-v0", max_episode_steps=4)
    buffer = HindsightReplayBuffer.for_env(env, buffer_size=20, goal_selection_strategy="final", seed=0)
    archive = EpisodeArchive(tmp_path, env=env)
    recorder = EpisodeRecorder(env, buffer.add_episode, archive.add_episode)
    for seed in range(2):
        recorder.reset(seed=seed)
        for _ in range(4):
            recorder.step([1.0, 0.0])
    return buffer, archive


def test_buffers_batches_episodes_and_archives_show_their_sizes(recorded, tmp_path):
    buffer, archive = recorded
    episodes = Episodes.of(buffer.episodes())
    batch = buffer.sample(10)
    assert repr(buffer) == (
        "<HindsightReplayBuffer transitions=8 buffer_size=20 episodes=2 goal_selection_strategy='final'>"
    )
    assert repr(batch) == repr(batch.to_torch()) == "<Batch transitions=10 relabeled=8>"
    assert repr(episodes) == "<Episodes episodes=2 steps=8>"
    assert repr(episodes[0]) == "<Episode steps=4 return=-4 terminated=False truncated=True>"
    assert repr(archive) == f"<EpisodeArchive path={str(tmp_path)!r} episodes=2 steps=8>"


def test_reports_show_their_summary():
    report = check_goal_env(gym.make("her_envs/PointReach-v0"), max_steps=200, select=["GE1"])
    assert repr(report) == f"<Report: {report.summary()}>"
    replay_report = check_replay(Ours, select=["HB101"])
    assert repr(replay_report) == f"<Report: {replay_report.summary()}>"
