"""EpisodeRecorder: every transition is recorded once, and the environment does not change."""

from __future__ import annotations

import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from hypothesis import given
from hypothesis import strategies as st

from her_envs import Counting, PointReach, TaskEnv
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer
from tests.support.bundled import VARIANTS, ids, make
from tests.support.numbered_env import Numbered, play


@given(
    lengths=st.lists(st.integers(1, 150), min_size=1, max_size=5),
    terminates=st.booleans(),
    steps=st.integers(0, 400),
)
def test_episodes_have_every_step_of_the_environment(lengths, terminates, steps):
    episodes = []
    env = EpisodeRecorder(Numbered(lengths, terminates=terminates), episodes.append, info_keys=["twice"])
    play(env, steps)
    env.close()

    assert sum(map(len, episodes)) == steps
    taken = 0
    for number, episode in enumerate(episodes):
        length = len(episode)
        complete = length == lengths[number % len(lengths)]
        assert complete or episode is episodes[-1]
        counts = [[number, t] for t in range(length + 1)]
        assert episode.observations["count"].tolist() == counts
        assert episode.observations["flag"].tolist() == [t % 2 for t in range(length + 1)]
        assert episode.rewards.tolist() == list(range(taken, taken + length))
        assert episode.actions[:, 1].tolist() == [-x for x in range(taken, taken + length)]
        assert (episode.infos["twice"] == 2 * np.array(counts[1:])).all()
        assert episode.reset_info["twice"].tolist() == [2 * number, 0]
        assert episode.terminated == (complete and terminates)
        assert episode.truncated == (not complete or not terminates)
        taken += length


@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
def test_returned_values_do_not_change(env_id, options):
    plain, recorded = make(env_id, **options), EpisodeRecorder(make(env_id, **options))
    plain.action_space.seed(0)
    first, second = plain.reset(seed=3), recorded.reset(seed=3)
    for _ in range(100):
        np.testing.assert_equal(second, first)
        action = plain.action_space.sample()
        first, second = plain.step(action), recorded.step(action)
        if first[2] or first[3]:
            np.testing.assert_equal(second, first)
            first, second = plain.reset(), recorded.reset()


def test_returned_objects_are_those_of_the_environment():
    env = Numbered()
    recorder = EpisodeRecorder(env)
    observation, info = recorder.reset()
    assert observation["count"] is env.count
    assert info is env.info
    assert recorder.step(np.zeros(2, np.float32))[4] is env.info


def test_the_recorder_is_not_part_of_the_spec():
    env = gym.make("her_envs/Counting-v0")
    recorder = EpisodeRecorder(env, [].append)
    assert recorder.spec == env.spec
    again = gym.make(recorder.spec)
    assert "EpisodeRecorder" not in str(again)


@pytest.mark.parametrize("above", [True, False])
def test_the_recorder_works_above_and_below_other_wrappers(above):
    episodes = []
    env = TaskEnv(PointReach(), max_steps=100)
    env = EpisodeRecorder(env, episodes.append) if not above else env
    env = gym.wrappers.RecordEpisodeStatistics(gym.wrappers.TimeLimit(env, 7))
    env = EpisodeRecorder(env, episodes.append, info_keys=["is_success"]) if above else env
    env.reset(seed=0)
    for i in range(20):
        *_, truncated, _ = env.step([0, 0])
        assert truncated == (i % 7 == 6)
        if truncated:
            env.reset()
    env.close()
    assert [len(episode) for episode in episodes] == [7, 7, 6]
    assert all(episode.truncated and not episode.terminated for episode in episodes)


def test_observations_without_dicts_are_recorded():
    episodes = []
    env = EpisodeRecorder(gym.wrappers.FlattenObservation(TaskEnv(PointReach())), episodes.append)
    play(env, 50)
    assert episodes[0].observations.shape == (51, 6)


def test_sinks_get_an_interrupted_episode_as_truncated():
    episodes = []
    env = EpisodeRecorder(Numbered([9]), episodes.append)
    env.reset()
    env.reset()
    assert episodes == [], "an episode without a step is none"
    env.step(np.zeros(2, np.float32))
    env.reset()
    env.step(np.zeros(2, np.float32))
    env.step(np.zeros(2, np.float32))
    env.close()
    env.close()
    assert [(len(e), e.terminated, e.truncated) for e in episodes] == [(1, False, True), (2, False, True)]


def test_the_infos_that_a_buffer_needs_are_recorded_without_being_named_again():
    env = gym.make("her_envs/PointReach-v0", max_steps=3)
    buffer = HindsightReplayBuffer.for_env(env, info_keys=["is_success"], buffer_size=100)
    for sink in (buffer, buffer.add_episode, buffer.add_episodes):
        play(EpisodeRecorder(env, sink), 3)
    assert [episode.infos["is_success"].tolist() for episode in buffer.episodes()] == [[False] * 3] * 3


def test_info_keys_of_the_recorder_and_of_its_sinks_are_recorded_once():
    env = gym.make("her_envs/PointReach-v0", max_steps=3)
    buffer = HindsightReplayBuffer.for_env(env, info_keys=["is_success"], buffer_size=100)
    env, episodes = gym.wrappers.RecordEpisodeStatistics(env), []
    keys = ["is_success"]
    play(EpisodeRecorder(env, buffer, episodes.append, info_keys=keys), 3)
    assert list(episodes[0].infos) == keys == ["is_success"]


def test_endless_tasks_are_recorded_as_successive_truncated_episodes():
    episodes = []
    env = EpisodeRecorder(Numbered([10]), episodes.append, max_episode_steps=4, info_keys=["twice"])
    play(env, 20)
    assert [len(episode) for episode in episodes] == [4, 4, 2] * 2
    assert [episode.truncated for episode in episodes] == [True, True, False] * 2
    assert [episode.observations["count"][0, 1] for episode in episodes] == [0, 4, 8] * 2
    np.testing.assert_array_equal(episodes[0].observations["count"][-1], episodes[1].observations["count"][0])


def test_an_episode_has_its_own_memory_and_can_be_pickled():
    episodes = []
    env = EpisodeRecorder(Numbered([3]), episodes.append, episodes.append)
    play(env, 6)
    kept = episodes[0].observations["count"].copy()
    assert episodes[0] is episodes[1]
    play(env, 3)
    np.testing.assert_array_equal(episodes[0].observations["count"], kept)
    assert not np.shares_memory(episodes[0].rewards, episodes[2].rewards)
    copied = pickle.loads(pickle.dumps(episodes[0]))
    np.testing.assert_array_equal(copied.observations["count"], kept)


def test_step_needs_a_reset_before_the_first_and_after_the_last():
    env = EpisodeRecorder(Numbered([1]))
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(np.zeros(2, np.float32))
    play(env, 1)
    env.reset()
    env.step(np.zeros(2, np.float32))
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(np.zeros(2, np.float32))


class Rearranged(Numbered):
    """An environment that returns views that are not contiguous."""

    def _observe(self):
        observation = super()._observe()
        return observation | {"count": np.repeat(self.count, 2)[::2]}


def test_views_are_recorded_like_arrays():
    episodes = []
    play(EpisodeRecorder(Rearranged([3]), episodes.append), 3)
    assert episodes[0].observations["count"].tolist() == [[0, t] for t in range(4)]


def test_counting_episodes_have_successive_steps():
    episodes = []
    env = EpisodeRecorder(TaskEnv(Counting(length=5)), episodes.append, info_keys=["is_success"])
    env.reset(seed=0)
    for _ in range(40):
        if env.step(0)[2]:
            env.reset()
    for episode in episodes:
        np.testing.assert_array_equal(episode.observations["achieved_goal"][:, 1], range(len(episode) + 1))
        assert episode.infos["is_success"].tolist() == [False] * (len(episode) - 1) + [True]
        assert episode.reset_info["is_success"] == False  # noqa: E712 - a NumPy bool
