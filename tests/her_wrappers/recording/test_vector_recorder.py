"""VectorEpisodeRecorder: for every kind of vector environment, the episodes that really happened."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from her_wrappers import Episodes, VectorEpisodeRecorder
from tests.her_wrappers.recording.numbered import (
    DISABLED,
    NEXT_STEP,
    SAME_STEP,
    NumberedVectorEnv,
    Truth,
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


def drive(env, truth, calls):
    """Step with actions that name the call and the environment; reset what ended where nobody else does."""
    env.reset()
    truth.reset()
    for call in range(calls):
        actions = np.stack([np.full(env.num_envs, call), np.arange(env.num_envs)], axis=1).astype(np.float32)
        _, _, terminations, truncations, _ = env.step(actions)
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
    truth, batches = Truth(num_envs, lengths, mode), []

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
