"""Recorders: an error between any two instructions loses at most the current step, and adds nothing."""

from __future__ import annotations

import pytest

from her_wrappers import EpisodeRecorder, SinkError
from tests.support.interrupted_recorder import (
    Counted,
    Once,
    assert_steps_of_single,
    assert_steps_of_vector,
    run_single,
    run_vector,
    step_and_reset,
)
from tests.support.interrupts import Countdown
from tests.support.numbered_vector_env import DISABLED, NEXT_STEP, SAME_STEP

RECORDING = "her_wrappers/recording/"


def instructions(run, *arguments):
    """Return the number of instructions in her_wrappers/recording of a run without an error."""
    countdown = Countdown(10**9, RECORDING)
    run(countdown, *arguments)
    return 10**9 - countdown.left


@pytest.mark.parametrize("stride", [307, pytest.param(17, marks=pytest.mark.slow)])
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


@pytest.mark.parametrize("stride", [1511, pytest.param(131, marks=pytest.mark.slow)])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
def test_an_error_at_any_instruction_loses_one_step_of_each_environment_at_most(mode, error, stride):
    for number in range(0, instructions(run_vector, Once(), mode), stride):
        sink, countdown = Once(), Countdown(number, RECORDING, error=error)
        taken = run_vector(countdown, sink, mode)
        assert countdown.has_raised
        assert_steps_of_vector(taken, sink.state[0], lost=1)
