"""Recorders that are interrupted, and assertions about their sinks afterwards."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from her_wrappers import (
    EpisodeArchive,
    EpisodeRecorder,
    HindsightReplayBuffer,
    SinkError,
    VectorEpisodeRecorder,
)
from tests.support.counting import ACTIONS, SPACE
from tests.support.interrupts import Countdown
from tests.support.numbered_env import Numbered
from tests.support.numbered_vector_env import DISABLED, NEXT_STEP, SAME_STEP, NumberedVectorEnv

FILES = "her_wrappers/"


def add_again(sink: Any, error: SinkError) -> None:
    """Add the episodes of a SinkError to the sink, as a user would after the error."""
    if error.episodes:
        sink.add_episodes(error.episodes)


class Once:
    """A sink that reports the episodes that it added last, as buffers and archives do."""

    def __init__(self):
        self.state = (), None

    def add_episodes(self, episodes):
        self.state = (*self.state[0], *episodes), episodes

    @property
    def last_added(self):
        return self.state[1]


class Counted(Numbered):
    """An environment with episodes of 3, 1 and 5 steps that counts steps and stores terminal states."""

    def __init__(self):
        super().__init__()
        self.steps, self.ends = 0, set()

    def step(self, action):
        self.steps += 1
        result = super().step(action)
        if result[2]:
            self.ends.add(tuple(self.count.tolist()))
        return result


def step_and_reset(env, steps):
    """Step an environment ``steps`` times, and reset it after the end of each episode."""
    for i in range(steps):
        if any(env.step(np.float32([i, -i]))[2:4]):
            env.reset()


def run_single(countdown, *sinks):
    """Record some steps with an error at one instruction, then reset and continue."""
    env = Counted()
    recorder = EpisodeRecorder(env, *sinks, info_keys=["twice"], max_episode_steps=4)
    try:
        with countdown.running():
            recorder.reset()
            step_and_reset(recorder, 10)
    except (KeyboardInterrupt, MemoryError, SinkError) as error:
        if isinstance(error, SinkError):
            add_again(sinks[0], error)
        recorder.reset()
        step_and_reset(recorder, 2)
    recorder.close()
    return env


def assert_steps_of_single(env, episodes, *, lost):
    """Assert that all steps except at most ``lost`` are in the episodes, unchanged and only once."""
    seen = []
    for episode in episodes:
        counts = episode.observations["count"]
        assert (counts[:, 0] == counts[0, 0]).all()
        np.testing.assert_array_equal(np.diff(counts[:, 1]), 1)
        np.testing.assert_array_equal(episode.infos["twice"], 2 * counts[1:])
        np.testing.assert_array_equal(episode.rewards, episode.actions[:, 0])
        assert episode.terminated == (tuple(counts[-1].tolist()) in env.ends)
        assert episode.truncated == (not episode.terminated)
        seen += [tuple(count) for count in counts[1:].tolist()]
    assert len(seen) == len(set(seen))
    assert env.steps - len(seen) <= lost


LENGTHS = [[3, 2], [1, 4], [5]]


def run_vector(countdown, sink, mode):
    """Record steps of three environments with an error at one instruction, then reset and continue."""
    env = NumberedVectorEnv(3, LENGTHS, mode)
    recorder = VectorEpisodeRecorder(env, sink, info_keys=["place"], max_episode_steps=4)
    taken = []
    step = env.step

    def noting_step(actions):
        result = step(actions)
        final = result[4].get("final_info", {}).get("place")
        ended = result[2] | result[3]
        places = result[0]["place"] if final is None else np.where(ended[:, None], final, result[0]["place"])
        taken.extend((*place, bool(end)) for place, end in zip(places.tolist(), ended, strict=True))
        return result

    env.step = noting_step
    try:
        with countdown.running():
            _steps(recorder, 9, mode)
    except (KeyboardInterrupt, MemoryError, SinkError) as error:
        if isinstance(error, SinkError):
            add_again(sink, error)
        _steps(recorder, 2, mode)
    recorder.close()
    return {place for place in taken if place[2] > 0}


def _steps(recorder, count, mode):
    recorder.reset()
    for i in range(count):
        _, _, terminated, truncated, _ = recorder.step(np.full((3, 2), i, np.float32))
        if mode is DISABLED and (terminated | truncated).any():
            recorder.reset(options={"reset_mask": terminated | truncated})


def assert_steps_of_vector(taken, episodes, *, lost):
    """Assert that the steps of all calls except at most ``lost`` are in the episodes, unchanged and once."""
    ends = {place[:3] for place in taken if place[3]}
    seen = []
    for episode in episodes:
        places = episode.observations["place"]
        assert (places[:, :2] == places[0, :2]).all()
        np.testing.assert_array_equal(np.diff(places[:, 2]), 1)
        np.testing.assert_array_equal(episode.infos["place"], places[1:])
        np.testing.assert_array_equal(episode.rewards, episode.actions[:, 0])
        is_end = tuple(places[-1].tolist()) in ends
        assert episode.terminated == (is_end and places[0, 1] % 2 == 0)
        assert episode.truncated == (not episode.terminated)
        seen += [tuple(place) for place in places[1:].tolist()]
    assert len(seen) == len(set(seen))
    assert set(seen) <= {place[:3] for place in taken}
    assert len(taken) - len(seen) <= 3 * lost


class CountingEnv(gym.Env[Any, Any]):
    """An environment in which state t of episode n is (n, t); episodes have three steps."""

    observation_space = SPACE
    action_space = ACTIONS

    def __init__(self):
        self.state = np.array([-1.0, 0.0])

    def _observe(self):
        return {key: self.state.copy() for key in SPACE}

    def reset(self, *, seed=None, options=None):
        self.state[:] = self.state[0] + 1, 0
        return self._observe(), {}

    def step(self, action):
        self.state[1] += 1
        return self._observe(), -1.0, bool(self.state[1] == 3), False, {}


def into_buffer(countdown, folder):
    """Record into a replay buffer with an error at one instruction, then reset and continue."""
    buffer = HindsightReplayBuffer(SPACE, ACTIONS, buffer_size=100, n_sampled_goal=0)
    recorder = EpisodeRecorder(CountingEnv(), buffer)

    def play(steps):
        recorder.reset()
        for _ in range(steps):
            if recorder.step(np.zeros(1))[2]:
                recorder.reset()

    try:
        with countdown.running():
            play(7)
    except (KeyboardInterrupt, MemoryError, SinkError) as error:
        if isinstance(error, SinkError):
            add_again(buffer, error)
        play(4)
    recorder.close()
    buffer.verify()
    numbers = []
    for episode in buffer.episodes():
        states = episode.observations["observation"]
        np.testing.assert_array_equal(states, [[states[0, 0], t] for t in range(len(episode) + 1)])
        numbers.append(states[0, 0])
    assert numbers == sorted(set(numbers)), "each episode is stored once"


def into_archive(countdown, folder):
    """Record into an archive with an error at one instruction, then reset and continue."""
    path = folder / f"archive {len(list(folder.iterdir()))}"
    with EpisodeArchive(path, shard_steps=4) as archive:
        env = run_single(countdown, archive)
    assert_steps_of_single(env, list(EpisodeArchive(path)), lost=1)


def into_memory(countdown, folder):
    """Record into a sink that keeps episodes in memory, with an error at one instruction."""
    sink = Once()
    assert_steps_of_single(run_single(countdown, sink), sink.state[0], lost=1)


def vector_into_memory(countdown, folder, mode):
    """Record a vector environment into memory, with an error at one instruction."""
    sink = Once()
    assert_steps_of_vector(run_vector(countdown, sink, mode), sink.state[0], lost=1)


RECORDERS: dict[str, Callable[[Countdown, Path], None]] = {
    "recorder": into_memory,
    "recorder into a replay buffer": into_buffer,
    "recorder into an archive": into_archive,
    **{
        f"vector recorder, {mode.value}": functools.partial(vector_into_memory, mode=mode)
        for mode in (NEXT_STEP, SAME_STEP, DISABLED)
    },
}
"""Functions that record with an error at one instruction, continue, and check the recorded episodes."""


@functools.cache
def instructions(recorder: str) -> int:
    """Return the number of instructions of a run without an error and without the imports of a first run."""
    counts = []
    for _ in range(2):
        countdown = Countdown(10**9, FILES)
        with tempfile.TemporaryDirectory() as folder:
            RECORDERS[recorder](countdown, Path(folder))
        counts.append(10**9 - countdown.left)
    return min(counts)


def interrupt_recorder(recorder: str, error: type[BaseException], moment: float, folder: Path) -> None:
    """Raise an error during a recording, and check the episodes in the sinks afterwards.

    ``moment`` is the fraction of the recording's instructions that run before the error, from 0 to 1.
    """
    RECORDERS[recorder](Countdown(int(moment * instructions(recorder)), FILES, error=error), folder)
