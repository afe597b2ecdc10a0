"""Recorders: an error between any two instructions loses at most the present step, and adds nothing."""

from __future__ import annotations

import numpy as np
import pytest

from her_wrappers import EpisodeArchive, EpisodeRecorder, SinkError, VectorEpisodeRecorder
from tests.support.interrupts import Countdown
from tests.support.numbered_env import Numbered
from tests.support.numbered_vector_env import DISABLED, NEXT_STEP, SAME_STEP, NumberedVectorEnv

RECORDING = "her_wrappers/recording/"


class Once:
    """A sink with ``last_added``, like buffers and archives."""

    def __init__(self):
        self.state = (), None

    def add_episodes(self, episodes):
        self.state = (*self.state[0], *episodes), episodes

    def add_refused(self, error):
        """Add the episodes of a SinkError."""
        if error.episodes:
            self.add_episodes(error.episodes)

    @property
    def last_added(self):
        return self.state[1]


class Counted(Numbered):
    """Episodes of 3, 1 and 5 steps; counts the steps and stores the last states."""

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
    """Step, and reset when an episode ends."""
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
            sinks[0].add_refused(error)
        recorder.reset()
        step_and_reset(recorder, 2)
    recorder.close()
    return env


def assert_steps_of_single(env, episodes, *, lost):
    """Assert that all steps except for ``lost`` are in the episodes, once and unchanged."""
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


def instructions(run, *arguments):
    """Return the number of instructions of the recorder in a run without an error."""
    countdown = Countdown(10**9, RECORDING)
    run(countdown, *arguments)
    return 10**9 - countdown.left


@pytest.mark.parametrize("stride", [307, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_error_at_any_instruction_loses_one_step_at_most(error, stride):
    for number in range(0, instructions(run_single, Once()), stride):
        sink, countdown = Once(), Countdown(number, RECORDING, error=error)
        env = run_single(countdown, sink)
        assert countdown.has_raised
        assert_steps_of_single(env, sink.state[0], lost=1)


def test_a_sink_of_the_user_gets_marked_episodes_again():
    for number in range(0, instructions(run_single, [].append), 97):
        got = []
        env = run_single(Countdown(number, RECORDING), got.append)
        fresh = [episode for episode in got if not episode.is_repeated]
        again = [episode for episode in got if episode.is_repeated]
        first = {(*episode.observations["count"][0], len(episode)) for episode in fresh}
        only_again = [each for each in again if (*each.observations["count"][0], len(each)) not in first]
        assert_steps_of_single(env, fresh + only_again, lost=1)


def test_a_sink_that_is_interrupted_gets_the_episode_again_and_others_do_not():
    first, third, calls = [], [], []

    def second(episode):
        calls.append(episode.is_repeated)
        if len(calls) == 1:
            raise KeyboardInterrupt

    recorder = EpisodeRecorder(Counted(), first.append, second, third.append)
    recorder.reset()
    with pytest.raises(KeyboardInterrupt):
        step_and_reset(recorder, 3)
    assert (len(first), calls, len(third)) == (1, [False], 0)
    recorder.reset()
    assert (len(first), calls, len(third)) == (1, [False, True], 1)
    assert not third[0].is_repeated


def test_a_keyboard_interrupt_is_raised_even_if_a_sink_raises():
    class Interrupted(Counted):
        def step(self, action):
            if self.count[1] == 2:
                raise KeyboardInterrupt
            return super().step(action)

    def refuse(episode):
        raise ValueError("full")

    recorder = EpisodeRecorder(Interrupted(), refuse)
    recorder.reset()
    with pytest.raises(KeyboardInterrupt) as caught:
        step_and_reset(recorder, 3)
    assert isinstance(caught.value.__cause__, SinkError)
    assert len(caught.value.__cause__.episode) == 2


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
            sink.add_refused(error)
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
    """Assert that all steps except for those of ``lost`` calls are in the episodes, once and unchanged."""
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


@pytest.mark.parametrize("stride", [1511, pytest.param(53, marks=pytest.mark.slow)])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
def test_an_error_at_any_instruction_loses_one_step_of_each_environment_at_most(mode, error, stride):
    for number in range(0, instructions(run_vector, Once(), mode), stride):
        sink, countdown = Once(), Countdown(number, RECORDING, error=error)
        taken = run_vector(countdown, sink, mode)
        assert countdown.has_raised
        assert_steps_of_vector(taken, sink.state[0], lost=1)


def test_an_interrupted_archive_gets_every_episode_once(tmp_path):
    for number in range(0, instructions(run_single, EpisodeArchive(tmp_path / "count", shard_steps=4)), 1511):
        folder = tmp_path / str(number)
        with EpisodeArchive(folder, shard_steps=4) as archive:
            env = run_single(Countdown(number, RECORDING), archive)
        assert_steps_of_single(env, list(EpisodeArchive(folder)), lost=1)
