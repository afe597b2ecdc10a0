"""VectorEpisodeRecorder: every step of every type of vector environment is recorded."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

import her_envs
from her_wrappers import EpisodeArchive, Episodes, HindsightReplayBuffer, VectorEpisodeRecorder
from tests.support.numbered_vector_env import (
    DISABLED,
    NEXT_STEP,
    SAME_STEP,
    ExpectedEpisodes,
    NumberedVectorEnv,
    assert_is_what_happened,
    makers,
)

INFO_KEYS = ["place", "odd", "name"]


def gymnasium_kind(kind, **options):
    def make(num_envs, lengths, mode):
        # Gymnasium loses the last observations of SAME_STEP environments that reuse their arrays.
        functions = makers(num_envs, lengths, reuse=mode is not SAME_STEP)
        return kind(functions, autoreset_mode=mode, **options)

    return make


def native_kind(**options):
    return lambda num_envs, lengths, mode: NumberedVectorEnv(num_envs, lengths, mode, **options)


KINDS = {
    "sync": gymnasium_kind(SyncVectorEnv),
    "sync without copies": gymnasium_kind(SyncVectorEnv, copy=False),
    "native": native_kind(),
    "native with its own arrays": native_kind(reuse=True),
    "native with final arrays": native_kind(arrays=True),
    "async": gymnasium_kind(AsyncVectorEnv),
    "async without copies": gymnasium_kind(AsyncVectorEnv, copy=False),
    "async by pipe": gymnasium_kind(AsyncVectorEnv, shared_memory=False),
}

LENGTHS = {
    "of many lengths": [[3, 1, 7], [2, 5], [4], [1, 1, 6]],
    "of one step": [[1]],
    "that end together": [[4]],
}


def actions_of(call, num_envs):
    """Return actions that identify the call and the environment."""
    return np.stack([np.full(num_envs, call), np.arange(num_envs)], axis=1).astype(np.float32)


def drive(env, truth, calls):
    """Step an environment and its expected episodes ``truth``; in mode DISABLED, reset ended environments."""
    env.reset()
    truth.reset()
    for call in range(calls):
        _, _, terminations, truncations, _ = env.step(actions_of(call, env.num_envs))
        ended = truth.step()
        if truth.mode is not SAME_STEP:
            np.testing.assert_array_equal(terminations | truncations, ended)
        if truth.mode is DISABLED and ended.any():
            env.reset(options={"reset_mask": ended.copy()})
            truth.reset(ended)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED], ids=lambda mode: mode.value)
@pytest.mark.parametrize("kind", KINDS)
def test_episodes_are_what_really_happened(kind, mode, lengths):
    num_envs = 3 if "async" in kind else 5
    truth, batches = ExpectedEpisodes(num_envs, lengths, mode), []

    class Sink:
        def add_episodes(self, episodes):
            assert isinstance(episodes, Episodes)
            batches.append(episodes)

    env = VectorEpisodeRecorder(KINDS[kind](num_envs, lengths, mode), Sink(), info_keys=INFO_KEYS)
    drive(env, truth, 25)
    env.close()
    truth.close()
    episodes = [episode for batch in batches for episode in batch]
    assert_is_what_happened(episodes, truth, INFO_KEYS)
    steps = sum(len(calls) for own in truth.episodes for _, _, calls, _ in own)
    assert sum(batch.num_steps for batch in batches) == steps
    if mode is not NEXT_STEP:
        assert steps == 25 * num_envs
    if len(lengths) == 1:
        assert all(len(batch) == num_envs for batch in batches), "those that end together come together"


@pytest.mark.slow
@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED], ids=lambda mode: mode.value)
@pytest.mark.parametrize("kind", KINDS)
def test_many_environments_are_recorded(kind, mode):
    lengths = [[1 + (7 * i + k) % 90 for k in range(5)] for i in range(24)]
    truth, episodes = ExpectedEpisodes(24, lengths, mode), []
    env = VectorEpisodeRecorder(KINDS[kind](24, lengths, mode), episodes.append, info_keys=INFO_KEYS)
    drive(env, truth, 250)
    env.close()
    truth.close()
    assert_is_what_happened(episodes, truth, INFO_KEYS)


@given(
    kind=st.sampled_from(["sync", "native", "native with final arrays", "native with its own arrays"]),
    mode=st.sampled_from([NEXT_STEP, SAME_STEP, DISABLED]),
    lengths=st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=4), min_size=1, max_size=4),
    limit=st.none() | st.integers(1, 12),
    resets=st.dictionaries(st.integers(0, 40), st.none() | st.lists(st.booleans(), min_size=4, max_size=4)),
)
def test_resets_in_mid_episode_and_limits_keep_every_step_once(kind, mode, lengths, limit, resets):
    truth, episodes = ExpectedEpisodes(4, lengths, mode, limit), []
    env = VectorEpisodeRecorder(
        KINDS[kind](4, lengths, mode), episodes.append, info_keys=["place"], max_episode_steps=limit
    )
    env.reset()
    truth.reset()
    for call in range(40):
        env.step(actions_of(call, 4))
        ended = truth.step()
        mask = np.array(resets.get(call) or [False] * 4) | (ended & (mode is DISABLED))
        if call in resets and resets[call] is None:
            env.reset()
            truth.reset()
        elif mask.any():
            env.reset(options={"reset_mask": mask.copy()})
            truth.reset(mask)
    env.close()
    truth.close()
    assert_is_what_happened(episodes, truth, ["place"])


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED], ids=lambda mode: mode.value)
def test_episodes_of_any_length_are_recorded(mode):
    lengths = [[10, 300], [7], [64, 65, 130]]
    truth, episodes = ExpectedEpisodes(3, lengths, mode), []
    env = VectorEpisodeRecorder(KINDS["native"](3, lengths, mode), episodes.append, info_keys=INFO_KEYS)
    drive(env, truth, 700)
    env.close()
    truth.close()
    assert_is_what_happened(episodes, truth, INFO_KEYS)


class Forgetful(NumberedVectorEnv):
    """A vector environment whose reset returns wrong observations of environments outside the reset mask."""

    def reset(self, *, seed=None, options=None):
        observation, infos = super().reset(seed=seed, options=options)
        others = ~(options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        for array in (observation["place"], observation["nested"]["odd"], infos["place"]):
            array[others] = 7
        return observation, infos


def test_observations_of_environments_outside_the_reset_mask_are_not_recorded():
    truth, episodes = ExpectedEpisodes(3, LENGTHS["of many lengths"], DISABLED), []
    env = Forgetful(3, LENGTHS["of many lengths"], DISABLED)
    recorder = VectorEpisodeRecorder(env, episodes.append, info_keys=["place"])
    drive(recorder, truth, 12)
    for own in truth.episodes:
        own[:] = [each for each in own if each[-1]]
    assert_is_what_happened(episodes, truth, ["place"])


def test_a_second_reset_by_gymnasium_is_not_recorded_as_a_transition():
    """After a reset at the end of an episode, AsyncVectorEnv without shared memory resets once more."""
    episodes = []
    env = VectorEpisodeRecorder(KINDS["async by pipe"](2, [[2], [9]], NEXT_STEP), episodes.append)
    env.reset()
    env.step(actions_of(1, 2))
    env.step(actions_of(2, 2))
    env.reset()
    for call in (3, 4, 5, 6):
        env.step(actions_of(call, 2))
    env.close()
    places = [episode.observations["place"].astype(int).tolist() for episode in episodes]
    whole = [[[i, number, t] for t in range(len(place))] for place in places for i, number, _ in place[:1]]
    assert sorted(places) == sorted(whole), "an episode has one number and all its steps"
    assert [len(place) - 1 for place in sorted(places) if place[0][0] == 1] == [2, 4]


class OwnArrays(gym.Env):
    """An environment that uses one array for all observations."""

    observation_space = gym.spaces.Box(0, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self):
        self.count = np.zeros(1)

    def reset(self, *, seed=None, options=None):
        self.count[:] = 0
        return self.count, {}

    def step(self, action):
        self.count += 1
        return self.count, 0.0, bool(self.count[0] == 2), False, {}


def test_overwritten_last_observations_cause_one_warning():
    env = VectorEpisodeRecorder(SyncVectorEnv([OwnArrays] * 2, autoreset_mode=SAME_STEP))
    env.reset()
    env.step(np.zeros(2, int))
    env.step(np.zeros(2, int))
    env.step(np.zeros(2, int))
    with pytest.warns(UserWarning, match="first 4 final_obs equal the first.*CopyObservation") as caught:
        env.step(np.zeros(2, int))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            env.step(np.zeros(2, int))


def test_a_buffer_stores_the_episodes_of_native_environments():
    envs = gym.make_vec("her_envs/Counting-v0", num_envs=64, length=5)
    buffer = HindsightReplayBuffer.for_env(envs, seed=0)
    recorder = VectorEpisodeRecorder(envs, buffer.add_episode)
    recorder.reset(seed=0)
    steps, ended = 0, np.zeros(64, bool)
    for _ in range(60):
        steps += 64 - ended.sum()
        _, _, ended, _, _ = recorder.step(np.zeros(64, int))
    recorder.close()
    assert isinstance(envs, her_envs.TaskVectorEnv)
    batch = buffer.sample(1000)
    counts = batch.next_observations["achieved_goal"] - batch.observations["achieved_goal"]
    np.testing.assert_array_equal(counts, np.tile([0, 1], (1000, 1)))
    assert len(buffer) == steps


def test_the_infos_that_a_buffer_needs_are_recorded_without_being_named_again():
    envs = gym.make_vec("her_envs/PointReach-v0", num_envs=2, max_steps=3)
    buffer = HindsightReplayBuffer.for_env(envs, info_keys=["is_success"], buffer_size=100)
    recorder = VectorEpisodeRecorder(envs, buffer)
    recorder.reset(seed=0)
    for _ in range(3):
        recorder.step(envs.action_space.sample())
    assert [episode.infos["is_success"].tolist() for episode in buffer.episodes()] == [[False] * 3] * 2


def test_an_archive_stores_the_episodes_of_vector_environments(tmp_path):
    truth = ExpectedEpisodes(3, LENGTHS["of many lengths"], SAME_STEP)
    archive = EpisodeArchive(tmp_path / "archive")
    env = KINDS["native"](3, LENGTHS["of many lengths"], SAME_STEP)
    env = VectorEpisodeRecorder(env, archive, info_keys=INFO_KEYS)
    drive(env, truth, 25)
    env.close()
    archive.close()
    truth.close()
    assert_is_what_happened(list(EpisodeArchive(tmp_path / "archive")), truth, INFO_KEYS)


def test_episodes_have_their_own_memory():
    episodes = []
    env = VectorEpisodeRecorder(KINDS["native"](2, [[3]], NEXT_STEP), episodes.append)
    drive(env, ExpectedEpisodes(2, [[3]], NEXT_STEP), 3)
    kept = episodes[0].observations["place"].copy()
    drive(env, ExpectedEpisodes(2, [[3]], NEXT_STEP), 20)
    np.testing.assert_array_equal(episodes[0].observations["place"], kept)
