"""EpisodeRecorder and VectorEpisodeRecorder: every step of every environment is recorded once."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from her_wrappers import EpisodeRecorder, Episodes, VectorEpisodeRecorder
from tests.support.numbered import (
    DISABLED,
    INFO_KEYS,
    NEXT_STEP,
    SAME_STEP,
    FinalArrays,
    Numbered,
    assert_recorded,
    drive,
    makers,
    recorder_of,
    vector,
)


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
    "async without copies": kind(AsyncVectorEnv, copy=False),
}
MANY_LENGTHS = [[3, 1, 7], [2, 5], [4], [1, 1, 6]]


def twin(num_envs, lengths, mode, taken=None):
    """Return a vector environment that appends its steps to ``taken``; a single one if ``mode`` is None."""
    return vector(num_envs, lengths, mode, taken=taken) if mode else Numbered(lengths, taken=taken)


def assert_episodes_are_right(env, lengths, mode, calls, resets=None, *, sinks=(), **options):
    """Compare the episodes of an environment with a recorder with the steps of a twin without one."""
    taken, episodes = [], []
    recorder = recorder_of(env, *sinks, episodes.append, **options)
    for each in (recorder, twin(getattr(env, "num_envs", 1), lengths, mode, taken)):
        drive(each, calls, resets)
        each.close()
    limit, info_keys = options.get("max_episode_steps"), options.get("info_keys", [])
    assert_recorded(episodes, taken, lengths, limit=limit, info_keys=info_keys)


class EpisodesList(list):
    """A sink that gets all episodes that ended at the same step in one call."""

    def add_episodes(self, episodes):
        assert isinstance(episodes, Episodes)
        self.append(episodes)


@pytest.mark.parametrize("lengths", [MANY_LENGTHS, [[4]]])
@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("kind", KINDS)
def test_episodes_of_vector_environments_are_what_really_happened(kind, mode, lengths):
    num_envs, batches = 3 if "async" in kind else 5, EpisodesList()
    env = KINDS[kind](num_envs, lengths, mode)
    assert_episodes_are_right(env, lengths, mode, 25, sinks=[batches], info_keys=INFO_KEYS)
    if len(lengths) == 1:
        assert all(len(batch) == num_envs for batch in batches), "those that end together come together"


@given(
    kind=st.sampled_from([None, *(name for name in KINDS if "async" not in name)]),
    mode=st.sampled_from(AutoresetMode),
    lengths=st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=4), min_size=1, max_size=4),
    limit=st.none() | st.integers(1, 12),
    resets=st.dictionaries(st.integers(0, 40), st.none() | st.lists(st.booleans(), min_size=4, max_size=4)),
)
@settings(max_examples=20)
def test_resets_in_mid_episode_and_limits_keep_every_step_once(kind, mode, lengths, limit, resets):
    options = {"info_keys": INFO_KEYS, "max_episode_steps": limit}
    if kind is None:
        env, mode, resets = Numbered(lengths), None, dict.fromkeys(resets)
    else:
        env = KINDS[kind](4, lengths, mode)
    assert_episodes_are_right(env, lengths, mode, 40, resets, **options)


@pytest.mark.parametrize("mode", [None, NEXT_STEP, SAME_STEP])
def test_episodes_of_any_length_are_recorded(mode):
    lengths = [[64, 65, 130], [10, 300], [7]]
    assert_episodes_are_right(twin(3, lengths, mode), lengths, mode, 700, info_keys=INFO_KEYS)


class Forgetful(gym.vector.VectorWrapper):
    """A vector environment whose reset returns wrong observations of environments outside the reset mask."""

    def reset(self, *, seed=None, options=None):
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        observation, infos = self.env.reset(seed=seed, options=options)
        for array in (observation["place"], observation["nested"]["odd"]):
            array[~mask] = 7
        return observation, infos


def test_observations_of_environments_outside_the_reset_mask_are_not_recorded():
    env = Forgetful(vector(3, MANY_LENGTHS, DISABLED))
    assert_episodes_are_right(env, MANY_LENGTHS, DISABLED, 12)


def test_environments_that_reset_twice_are_an_error():
    env = AsyncVectorEnv(makers(2, [[2]]), shared_memory=False)
    with pytest.raises(ValueError, match="pass shared_memory=True"):
        VectorEpisodeRecorder(env)
    env.close()


def test_actions_of_another_float_dtype_are_rounded():
    episodes = []
    env = EpisodeRecorder(Numbered([[2]]), episodes.append)
    env.reset()
    for _ in range(2):
        env.step(np.array([1 + 1e-12, 2]))
    assert episodes[0].actions.dtype == np.float32
    assert episodes[0].actions.tolist() == [[1, 2]] * 2
