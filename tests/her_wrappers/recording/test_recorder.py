"""EpisodeRecorder: every transition is recorded once, and the environment does not change."""

from __future__ import annotations

import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from hypothesis import given
from hypothesis import strategies as st

from her_envs import PointReach, TaskEnv
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer
from tests.support.bundled import VARIANTS, ids, make
from tests.support.numbered import DISABLED, INFO_KEYS, ExpectedEpisodes, Numbered, drive


def play(env, steps):
    """Reset, and step with random actions; reset when an episode ends."""
    env.reset(seed=0)
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()


@given(
    lengths=st.lists(st.integers(1, 150), min_size=1, max_size=5),
    limit=st.none() | st.integers(1, 80),
    resets=st.dictionaries(st.integers(0, 300), st.none(), max_size=3),
    steps=st.integers(0, 300),
)
def test_episodes_are_what_really_happened(lengths, limit, resets, steps):
    truth, episodes = ExpectedEpisodes(1, [lengths], DISABLED, limit), []
    env = EpisodeRecorder(Numbered([lengths]), episodes.append, info_keys=INFO_KEYS, max_episode_steps=limit)
    drive(env, steps, truth, resets)
    env.close()
    truth.assert_recorded(episodes)


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
    assert observation["place"] is env.place
    assert info is env.info
    assert recorder.step(np.zeros(2, np.float32))[4] is env.info


def test_the_recorder_is_not_part_of_the_spec():
    env = gym.make("her_envs/Counting-v0")
    recorder = EpisodeRecorder(env, [].append)
    assert recorder.spec == env.spec
    assert "EpisodeRecorder" not in str(gym.make(recorder.spec))


@pytest.mark.parametrize("above", [True, False])
def test_the_recorder_works_above_and_below_other_wrappers(above):
    episodes = []
    env = TaskEnv(PointReach(), max_steps=100)
    env = EpisodeRecorder(env, episodes.append) if not above else env
    env = gym.wrappers.FlattenObservation(gym.wrappers.TimeLimit(env, 7))
    env = EpisodeRecorder(env, episodes.append, info_keys=["is_success"]) if above else env
    play(env, 20)
    env.close()
    assert [len(episode) for episode in episodes] == [7, 7, 6]
    assert all(episode.truncated and not episode.terminated for episode in episodes)
    values = episodes[0].observations if above else episodes[0].observations["observation"]
    assert values.shape == (8, 6 if above else 2)


def test_an_episode_without_a_step_is_not_delivered():
    episodes = []
    env = EpisodeRecorder(Numbered([[9]]), episodes.append)
    env.reset()
    drive(env, 2)
    env.close()
    env.close()
    assert [len(episode) for episode in episodes] == [2]


def test_info_keys_of_the_recorder_and_of_its_sinks_are_recorded_once():
    env = gym.make("her_envs/PointReach-v0", max_steps=3)
    buffer, episodes = HindsightReplayBuffer.for_env(env, info_keys=["is_success"], buffer_size=100), []
    for sink in (buffer, buffer.add_episode, buffer.add_episodes):
        play(EpisodeRecorder(env, sink, episodes.append, info_keys=["is_success"]), 3)
    assert [list(episode.infos) for episode in episodes] == [["is_success"]] * 3
    assert [episode.infos["is_success"].tolist() for episode in buffer.episodes()] == [[False] * 3] * 3


def test_an_episode_has_its_own_memory_and_can_be_pickled():
    episodes = []
    env = EpisodeRecorder(Numbered([[3]]), episodes.append)
    drive(env, 3)
    kept = episodes[0].observations["place"].copy()
    drive(env, 9)
    np.testing.assert_array_equal(episodes[0].observations["place"], kept)
    assert episodes[0].rewards.flags.writeable
    copied = pickle.loads(pickle.dumps(episodes[0]))
    np.testing.assert_array_equal(copied.observations["place"], kept)


def test_step_needs_a_reset_before_the_first_and_after_the_last():
    env = EpisodeRecorder(Numbered([[1]]))
    for _ in range(2):
        with pytest.raises(ResetNeeded, match="call reset"):
            env.step(np.zeros(2, np.float32))
        env.reset()
        env.step(np.zeros(2, np.float32))


class Rearranged(Numbered):
    """An environment that returns views that are not contiguous."""

    def observe(self):
        return super().observe() | {"place": np.repeat(self.place, 2)[::2]}


def test_views_are_recorded_like_arrays():
    truth, episodes = ExpectedEpisodes(1, [[3]], DISABLED), []
    env = EpisodeRecorder(Rearranged([[3]]), episodes.append)
    drive(env, 4, truth)
    env.reset()
    truth.assert_recorded(episodes, [])


def test_actions_of_another_float_dtype_are_rounded():
    episodes = []
    env = EpisodeRecorder(Numbered([[2]]), episodes.append)
    env.reset()
    for _ in range(2):
        env.step(np.array([1 + 1e-12, 2]))
    assert episodes[0].actions.dtype == np.float32
    assert episodes[0].actions.tolist() == [[1, 2]] * 2
