"""VectorEpisodeRecorder: every step of every type of vector environment is recorded."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

from her_wrappers import Episodes, HindsightReplayBuffer, VectorEpisodeRecorder
from tests.support.numbered import (
    DISABLED,
    INFO_KEYS,
    NEXT_STEP,
    SAME_STEP,
    ExpectedEpisodes,
    FinalArrays,
    Numbered,
    drive,
    makers,
    vector,
)

MODES = [NEXT_STEP, SAME_STEP, DISABLED]


def kind(vector_class, **options):
    def make(num_envs, lengths, mode):
        # Gymnasium loses the last observations of SAME_STEP environments that reuse their arrays.
        functions = makers(num_envs, lengths, reuse=mode is not SAME_STEP)
        return vector_class(functions, autoreset_mode=mode, **options)

    return make


KINDS = {
    "sync": kind(SyncVectorEnv),
    "sync without copies": kind(SyncVectorEnv, copy=False),
    "final arrays": lambda *arguments: FinalArrays(vector(*arguments)),
    "async": kind(AsyncVectorEnv),
    "async without copies": kind(AsyncVectorEnv, copy=False),
    "async by pipe": kind(AsyncVectorEnv, shared_memory=False),
}
SYNCHRONOUS = [name for name in KINDS if "async" not in name]
MANY_LENGTHS = [[3, 1, 7], [2, 5], [4], [1, 1, 6]]


class EpisodesList(list):
    """A sink that gets all episodes that ended at the same step in one call."""

    def add_episodes(self, episodes):
        assert isinstance(episodes, Episodes)
        self.append(episodes)


@pytest.mark.parametrize("lengths", [MANY_LENGTHS, [[1]], [[4]]])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("kind", KINDS)
def test_episodes_are_what_really_happened(kind, mode, lengths):
    num_envs = 3 if "async" in kind else 5
    truth, batches = ExpectedEpisodes(num_envs, lengths, mode), EpisodesList()
    env = VectorEpisodeRecorder(KINDS[kind](num_envs, lengths, mode), batches, info_keys=INFO_KEYS)
    drive(env, 25, truth)
    env.close()
    truth.assert_recorded([episode for batch in batches for episode in batch])
    if len(lengths) == 1:
        assert all(len(batch) == num_envs for batch in batches), "those that end together come together"


@given(
    kind=st.sampled_from(SYNCHRONOUS),
    mode=st.sampled_from(MODES),
    lengths=st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=4), min_size=1, max_size=4),
    limit=st.none() | st.integers(1, 12),
    resets=st.dictionaries(st.integers(0, 40), st.none() | st.lists(st.booleans(), min_size=4, max_size=4)),
)
def test_resets_in_mid_episode_and_limits_keep_every_step_once(kind, mode, lengths, limit, resets):
    truth, episodes = ExpectedEpisodes(4, lengths, mode, limit), []
    env = VectorEpisodeRecorder(
        KINDS[kind](4, lengths, mode), episodes.append, info_keys=INFO_KEYS, max_episode_steps=limit
    )
    drive(env, 40, truth, resets)
    env.close()
    truth.assert_recorded(episodes)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_episodes_of_any_length_are_recorded(mode):
    lengths = [[10, 300], [7], [64, 65, 130]]
    truth, episodes = ExpectedEpisodes(3, lengths, mode), []
    env = VectorEpisodeRecorder(vector(3, lengths, mode), episodes.append, info_keys=INFO_KEYS)
    drive(env, 700, truth)
    env.close()
    truth.assert_recorded(episodes)


class Forgetful(gym.vector.VectorWrapper):
    """A vector environment whose reset returns wrong observations of environments outside the reset mask."""

    def reset(self, *, seed=None, options=None):
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        observation, infos = self.env.reset(seed=seed, options=options)
        for array in (observation["place"], observation["nested"]["odd"]):
            array[~mask] = 7
        return observation, infos


def test_observations_of_environments_outside_the_reset_mask_are_not_recorded():
    truth, episodes = ExpectedEpisodes(3, MANY_LENGTHS, DISABLED), []
    env = VectorEpisodeRecorder(Forgetful(vector(3, MANY_LENGTHS, DISABLED)), episodes.append)
    drive(env, 12, truth)
    env.close()
    truth.assert_recorded(episodes, [])


@pytest.mark.parametrize("resets", [1, 2])
def test_a_second_reset_by_gymnasium_is_not_recorded_as_a_transition(resets):
    """After a reset at the end of an episode, AsyncVectorEnv without shared memory resets once more."""
    episodes = []
    env = VectorEpisodeRecorder(KINDS["async by pipe"](2, [[2], [9]], NEXT_STEP), episodes.append)
    drive(env, 2)
    for _ in range(resets):
        drive(env, 4)
    env.close()
    places = [episode.observations["place"].astype(int).tolist() for episode in episodes]
    whole = [[[i, number, t] for t in range(len(place))] for place in places for i, number, _ in place[:1]]
    assert places == whole, "an episode has one number and all its steps"
    assert [len(place) - 1 for place in places if place[0][0] == 1] == [2, *[4] * resets]


class MissingInfo(Numbered):
    """An environment that lacks an info at the last step of its first episode."""

    def step(self, action):
        *result, info = super().step(action)
        return (*result, {} if self.episode == 0 and result[2] else info)


def test_an_error_at_the_last_step_does_not_join_two_episodes():
    """Gymnasium resets once more, although the recorder could not record the last step."""
    episodes = []
    envs = AsyncVectorEnv(makers(2, [[3]], kind=MissingInfo), shared_memory=False)
    env = VectorEpisodeRecorder(envs, episodes.append, info_keys=["name"])
    with pytest.raises(ValueError, match="info has no 'name' at step 2 of environment 0"):
        drive(env, 3)
    assert [(len(episode), episode.truncated) for episode in episodes] == [(2, True), (2, True)]
    drive(env, 9)
    env.close()
    for episode in episodes[2:4]:
        assert np.diff(episode.observations["place"], axis=0).tolist() == [[0, 0, 1]] * 3


def test_overwritten_last_observations_cause_one_warning():
    env = VectorEpisodeRecorder(SyncVectorEnv(makers(2, [[2]], reuse=True), autoreset_mode=SAME_STEP))
    drive(env, 3)
    with pytest.warns(UserWarning, match="first 4 final_obs equal the first.*CopyObservation") as caught:
        env.step(np.zeros((2, 2), np.float32))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drive(env, 4)


def test_a_buffer_stores_the_episodes_of_native_environments():
    envs = gym.make_vec("her_envs/Counting-v0", num_envs=64, length=5)
    buffer = HindsightReplayBuffer.for_env(envs, info_keys=["is_success"], seed=0)
    recorder = VectorEpisodeRecorder(envs, buffer.add_episode)
    recorder.reset(seed=0)
    steps, ended = 0, np.zeros(64, bool)
    for _ in range(60):
        steps += 64 - ended.sum()
        _, _, ended, _, _ = recorder.step(np.zeros(64, int))
    recorder.close()
    batch = buffer.sample(1000)
    counts = batch.next_observations["achieved_goal"] - batch.observations["achieved_goal"]
    np.testing.assert_array_equal(counts, np.tile([0, 1], (1000, 1)))
    assert len(buffer) == steps
    assert all(episode.infos["is_success"][-1] == episode.terminated for episode in buffer.episodes())


def test_episodes_have_their_own_memory():
    episodes = []
    env = VectorEpisodeRecorder(vector(2, [[3]], NEXT_STEP), episodes.append)
    drive(env, 3)
    kept = episodes[0].observations["place"].copy()
    drive(env, 20)
    np.testing.assert_array_equal(episodes[0].observations["place"], kept)
