"""Recorders: errors of environments and sinks are named, and recorded steps are kept."""

import itertools
import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from her_wrappers import EpisodeRecorder, SinkError, VectorEpisodeRecorder
from tests.support.numbered import DISABLED, NEXT_STEP, SAME_STEP, Numbered, drive, recorder_of, vector

LENGTHS = [[9], [2], [4]]


def put(position, value, *path):
    """Return a function that replaces a part of the values of ``step``."""

    def change(result):
        target, key = result, position
        for step in path:
            target, key = target[key], step
        target[key] = value

    return change


def drop(key):
    """Return a function that removes a key from the infos."""
    return lambda result: result[4].pop(key)


def interrupt(result):
    raise KeyboardInterrupt


def broken(episode):
    raise OSError("disk full")


def faulty(mode, change=lambda result: None, at=2, lengths=LENGTHS):
    """Return three environments, or one if ``mode`` is None; ``change`` changes the values of one step."""
    env = Numbered(lengths) if mode is None else vector(3, lengths, mode)
    step, calls = env.step, itertools.count(1)

    def step_with_fault(action):
        result = list(step(action))
        if next(calls) == at:
            change(result)
        return tuple(result)

    env.step = step_with_fault
    return env


def record(env, *sinks, **options):
    recorder = recorder_of(env, *sinks, **options)
    recorder.reset()
    return recorder


def step(env, times=1):
    for _ in range(times):
        result = env.step(np.zeros(env.action_space.shape, np.float32))
    return result


PLACE = np.zeros((3, 3))
FAULTS = {
    None: [
        (lambda result: result.pop(), "not enough values"),
        (put(0, np.zeros(2), "place"), "observation/place at step 2 must have shape (3,)"),
        (put(0, {"place": np.zeros(3)}), "observation/nested/odd is missing at step 2"),
        (put(1, np.zeros(1)), "reward must be one number, got array([0.]) at step 1"),
        (put(4, {"place": 1}), "info has no 'odd' at step 1, only ['place']; return it at every step"),
        (put(4, {"odd": [[1], [1, 2]]}), "info 'odd' must be a number, a string or an array"),
    ],
    DISABLED: [
        (
            put(0, np.zeros((3, 2)), "place"),
            "place at step 2 of environment 0 must have shape (3,), got (2,)",
        ),
        (put(0, [[0.0] * 3, [0.0], [0.0] * 3], "place"), "place at step 2 of environment 1 must have shape"),
        (put(1, ["a", "b", "c"]), "rewards must be numbers of shape (3,), one per environment"),
        (put(2, np.zeros(3)), "terminations must be bools of shape (3,)"),
        (put(4, np.array([True, True, False]), "_odd"), "info has no 'odd' at step 1 of environment 2"),
        (put(4, np.array([1, None, 2]), "odd"), "info 'odd' must be a number, a string or an array"),
        (put(4, [{}, {"odd": 1}, {}]), "info has no 'odd' at step 1 of environment 0"),
        (put(4, [{}, {}]), "(one per environment) or a single dict of arrays, got list of length 2"),
    ],
    SAME_STEP: [  # in which the episode of environment 1 ends
        (drop("final_obs"), "infos have no 'final_obs' at step 2 of environment 1, whose episode ended"),
        (drop("final_info"), "info has no 'odd' in final_info at step 1 of environment 1"),
        (put(4, np.array([None, {"place": np.zeros(3)}, None]), "final_obs"), "odd is missing at step 2 of"),
        (put(4, {"place": PLACE}, "final_obs"), "observation/nested/odd is missing in final_obs"),
    ],
}


@pytest.mark.parametrize(
    ("mode", "fault", "message"), [(mode, *row) for mode, rows in FAULTS.items() for row in rows]
)
def test_an_invalid_value_is_named_and_the_steps_before_are_kept(mode, fault, message):
    """An observation after a failed step does not follow from the last recorded action."""
    episodes = []
    env = record(faulty(mode, fault), episodes.append, info_keys=["odd"])
    step(env)
    with pytest.raises(ValueError, match=re.escape(message)):
        step(env)
    count = 1 if mode is None else 3
    assert [(len(episode), episode.truncated) for episode in episodes] == [(1, True)] * count
    with pytest.raises(ResetNeeded):
        step(env)
    env.reset()
    step(env)
    env.close()
    assert len(episodes) == 2 * count
    for episode in episodes:
        assert np.diff(episode.observations["place"], axis=0).tolist() == [[0, 0, 1]]
    assert all(len(values) == 1 for episode in episodes for values in episode.infos.values())


@pytest.mark.parametrize("mode", [None, NEXT_STEP])
def test_a_bad_action_does_not_reach_the_environment_or_change_the_episode(mode):
    episodes, shape = [], (2,) if mode is None else (3, 2)
    env = record(faulty(mode, lengths=[[2]]), episodes.append)
    for call in range(2):
        with pytest.raises(ValueError, match=rf"action at step {call} .*must have shape \(2,\), got \(3,\)"):
            env.step(np.zeros((*shape[:-1], 3)))
        env.step(np.full(shape, call, np.float32))
    assert all(episode.actions.tolist() == [[0, 0], [1, 1]] for episode in episodes)
    assert len(episodes) == (1 if mode is None else 3)


def test_a_bad_reset_mask_is_an_error():
    env = record(faulty(NEXT_STEP))
    with pytest.raises(ValueError, match=r"'reset_mask'\] must be a bool array of shape \(3,\)"):
        env.reset(options={"reset_mask": [1, 0, 0]})
    step(env)


def test_a_space_that_changes_at_reset_is_an_error():
    episodes = []
    env = record(Numbered([[9]]), episodes.append)
    step(env)
    env.unwrapped.observation_space = spaces.Dict(place=spaces.Box(0, np.inf, (3,)))
    with pytest.raises(ValueError, match="the observation space changed"):
        env.reset()
    assert [len(episode) for episode in episodes] == [1]
    with pytest.raises(ResetNeeded):
        step(env)


def test_the_error_of_a_sink_has_the_result_of_the_step_and_recording_continues():
    served = []
    env = record(Numbered([[2]]), broken, served.append)
    step(env)
    with pytest.raises(SinkError, match="broken raised OSError") as caught:
        step(env)
    observation, _, terminated, _, _ = caught.value.result
    assert terminated
    assert observation["place"] is env.unwrapped.place
    env.reset()
    step(env)
    with pytest.raises(SinkError):
        env.close()
    assert [len(episode) for episode in served] == [2, 1]


def test_a_keyboard_interrupt_is_raised_even_if_a_sink_raises():
    with pytest.raises(KeyboardInterrupt) as caught:
        drive(record(faulty(None, interrupt), broken), 3)
    assert isinstance(caught.value.__cause__, SinkError)


@pytest.mark.parametrize("lengths", [LENGTHS, [[2]]])
def test_an_interrupt_in_the_environment_loses_no_step_and_a_reset_is_needed(lengths):
    """With episodes of two steps, the interrupt comes at the begin of all next episodes."""
    episodes = []
    env = record(faulty(NEXT_STEP, interrupt, at=3, lengths=lengths), episodes.append)
    step(env, 2)
    with pytest.raises(KeyboardInterrupt):
        step(env)
    assert [len(episode) for episode in episodes] == [2, 2, 2]
    with pytest.raises(ResetNeeded):
        step(env)


def test_environments_that_ended_must_be_reset_before_the_next_step():
    env = VectorEpisodeRecorder(faulty(DISABLED))
    with pytest.raises(ResetNeeded, match=r"in the environments \[0, 1, 2\]; call reset"):
        step(env)
    env.reset()
    step(env, 2)
    with pytest.raises(ResetNeeded, match=r"in the environments \[1\]; call reset"):
        step(env)
    env.reset(options={"reset_mask": np.array([False, True, False])})
    step(env)


class WithoutMode(gym.vector.VectorWrapper):
    metadata = {}  # noqa: RUF012 - as VectorEnv declares it


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: EpisodeRecorder(faulty(DISABLED)), TypeError, "use VectorEpisodeRecorder"),
        (lambda: VectorEpisodeRecorder(Numbered()), TypeError, "use EpisodeRecorder"),
        (lambda: VectorEpisodeRecorder(WithoutMode(faulty(DISABLED))), ValueError, "AutoresetMode, got None"),
        (lambda: EpisodeRecorder(Numbered(), max_episode_steps=2.5), ValueError, "max_episode_steps"),
        (lambda: record(faulty(DISABLED), max_episode_steps=0), ValueError, "max_episode_steps"),
        (lambda: record(faulty(DISABLED), info_keys=[1]), TypeError, "info_keys must be a list"),
        (lambda: EpisodeRecorder(Numbered(), 5), TypeError, "a sink must be callable"),
    ],
)
def test_invalid_arguments_are_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("mode", [None, DISABLED])
def test_a_recorder_inside_that_has_the_same_sink_is_an_error(mode):
    first, second = [], []
    inner = record(faulty(mode), first.append)
    with pytest.raises(ValueError, match="recorder inside of env"):
        record(inner, second.append, first.append)
    record(inner, second.append)
