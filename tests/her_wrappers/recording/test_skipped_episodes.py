"""Recorders that skip episodes with NaN, and sinks in workers of vector environments."""

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv

from her_wrappers import EpisodeRecorder, Episodes, HindsightReplayBuffer, NotFiniteError, SinkError
from her_wrappers.recording.sinks import Sinks
from tests.support.counting import counting_buffer, counting_episode
from tests.support.other_envs import Other


def spoil(episode, part):
    if part == "rewards":
        episode.rewards[-1] = np.nan
    else:
        episode.observations[part][-1] = np.inf if part == "achieved_goal" else np.nan


@pytest.mark.parametrize("part", ["observation", "achieved_goal", "rewards"])
def test_bad_episodes_are_skipped_counted_and_named_once(part):
    buffer, everything = counting_buffer(), []
    sinks = Sinks([buffer, everything.append], "skip")
    episodes = [counting_episode(number, 3) for number in range(6)]
    for number in (1, 4):
        spoil(episodes[number], part)
    with pytest.warns(UserWarning, match=f"an episode was skipped: .*{part}"):
        sinks.deliver(Episodes.of(episodes[:3]))
    sinks.deliver(Episodes.of(episodes[3:]))  # without a warning
    assert (sinks.skipped, buffer.num_episodes, len(everything)) == (2, 4, 6)


def play(recorder):
    recorder.reset(seed=0)
    while not any(recorder.step(np.zeros(2, np.float32))[2:4]):
        pass


def test_a_recorder_counts_skipped_episodes_and_raises_all_other_errors():
    def reject(episode):
        raise error

    recorder, error = EpisodeRecorder(Other(), reject, on_error="skip"), NotFiniteError("NaN")
    with pytest.warns(UserWarning, match="an episode was skipped: .* rejected it: NaN"):
        play(recorder)
    assert recorder.skipped_episodes == 1
    error = ValueError("no")
    with pytest.raises(SinkError, match="reject raised ValueError: no"):
        play(recorder)
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
    assert (str(error), len(error.episodes), error.result) == ("full", 0, None)
