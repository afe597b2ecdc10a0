"""Recorders that skip episodes with NaN, and sinks in workers of vector environments."""

import warnings

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from her_wrappers import (
    EpisodeRecorder,
    HindsightReplayBuffer,
    SinkError,
    VectorEpisodeRecorder,
)
from tests.support.other_envs import Other


class Unstable(Other):
    """Every third episode ends with NaN: in the observation, an infinite goal or the reward."""

    broken, episode = "observation", 0

    def reset(self, **options):
        self.episode += 1
        return super().reset(**options)

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if truncated and self.episode % 3 == 0:
            if self.broken == "reward":
                reward = float("nan")
            else:
                observation[self.broken] = np.full_like(observation[self.broken], np.inf)
                observation["observation"] *= np.nan if self.broken == "observation" else 1
        return observation, reward, terminated, truncated, info


def play(env, steps):
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(steps):
        ended = env.step(env.action_space.sample())[2:4]
        if np.ndim(ended[0]) == 0 and any(ended):
            env.reset()


@pytest.mark.parametrize("broken", ["observation", "achieved_goal", "reward"])
@pytest.mark.parametrize("is_vector", [False, True])
def test_bad_episodes_are_skipped_counted_and_named_once(broken, is_vector):
    made, everything = type("Made", (Unstable,), {"broken": broken}), []
    env = SyncVectorEnv([made, made]) if is_vector else made()
    recorder_type = VectorEpisodeRecorder if is_vector else EpisodeRecorder
    buffer = HindsightReplayBuffer.for_env(env, termination="never")
    recorder = recorder_type(env, buffer, everything.append, on_error="skip")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play(recorder, 400)
    bad = [
        each
        for each in everything
        if not np.isfinite(each.rewards).all()
        or not all(np.isfinite(array).all() for array in each.observations.values())
    ]
    assert len(bad) == recorder.skipped_episodes > 2
    assert sum(map(len, everything)) - sum(map(len, bad)) == len(buffer)
    skipped = [str(each.message) for each in caught if "skipped" in str(each.message)]
    assert len(skipped) == 1
    assert broken in skipped[0]


def test_skip_raises_all_other_errors():
    def fail(episode):
        raise ValueError("no")

    recorder = EpisodeRecorder(Other(), fail, on_error="skip")
    with pytest.raises(SinkError, match="fail raised ValueError: no"):
        play(recorder, 50)
    with pytest.raises(ValueError, match="on_error must be 'raise' or 'skip', got True"):
        EpisodeRecorder(Other(), on_error=True)


@pytest.mark.filterwarnings("ignore")  # of Gymnasium, about the worker that ended
def test_a_sink_in_a_worker_of_a_vector_environment_is_an_error():
    buffer = HindsightReplayBuffer.for_env(Other())
    envs = AsyncVectorEnv([lambda: EpisodeRecorder(Other(), buffer.add_episode)] * 2)
    with pytest.raises(RuntimeError, match="wrap the vector environment"):
        envs.reset()
    envs.close(terminate=True)


@pytest.mark.parametrize(
    ("sink", "is_lost"), [([].append, True), (HindsightReplayBuffer.for_env(Other()), True), (print, False)]
)
def test_only_sinks_in_memory_are_lost_in_a_worker(sink, is_lost, monkeypatch):
    monkeypatch.setattr("her_wrappers.recording.sinks._is_in_worker", lambda: True)
    recorder = EpisodeRecorder(Other(), sink)
    if is_lost:
        with pytest.raises(RuntimeError, match="is a copy"):
            recorder.reset()
    else:
        recorder.reset()


def test_errors_of_sinks_survive_the_pipe_of_a_worker():
    """Gymnasium raises ``type(error)(message)`` in the main process."""
    error = SinkError("full")
    assert (str(error), len(error.episodes), error.episode, error.result) == ("full", 0, None, None)
