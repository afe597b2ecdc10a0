"""Recorders: errors of environments and sinks are named, and recorded steps are kept."""

import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from her_wrappers import EpisodeRecorder, SinkError, VectorEpisodeRecorder
from tests.support.numbered import DISABLED, NEXT_STEP, SAME_STEP, Numbered, drive, vector


def put(position, value, *path):
    """Return a function that replaces a part of the values of ``step``."""

    def change(result):
        target, key = result, position
        for step in path:
            target, key = target[key], step
        target[key] = value

    return change


def interrupt(result):
    raise KeyboardInterrupt


def broken(episode):
    raise OSError("disk full")


# --- one environment ------------------------------------------------------------------------------

ACTION = np.zeros(2, np.float32)


class Faulty(Numbered):
    """An environment with a fault at step 2."""

    def __init__(self, change, lengths=((9,),)):
        super().__init__(lengths)
        self.change = change

    def step(self, action):
        result = list(super().step(action))
        if self.place[2] == 2:
            self.change(result)
        return tuple(result)


FAULTS = [
    (lambda result: result.pop(), "not enough values"),
    (put(0, np.zeros(2), "place"), "observation/place at step 2 must have shape (3,)"),
    (put(0, {"place": np.zeros(3)}), "observation/nested/odd is missing at step 2"),
    (put(1, np.zeros(1)), "reward must be one number, got array([0.]) at step 1"),
    (put(4, {"odd": 1}), "info has no 'place' at step 1, only ['odd']; return it at every step"),
    (put(4, {"odd": 1, "place": [[1], [1, 2]]}), "info 'place' must be a number, a string or an array"),
    (put(4, {"odd": 1, "place": 1}), "info 'place' must have the same shape and type at every step"),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS)
def test_an_error_of_the_environment_is_named_and_the_steps_before_are_kept(fault, message):
    """An observation after a failed step does not follow from the last recorded action."""
    episodes = []
    env = EpisodeRecorder(Faulty(fault), episodes.append, info_keys=["odd", "place"])
    env.reset()
    env.step(ACTION)
    with pytest.raises(ValueError, match=re.escape(message)):
        env.step(ACTION)
    assert [(len(episode), episode.truncated) for episode in episodes] == [(1, True)]
    with pytest.raises(ResetNeeded):
        env.step(ACTION)
    env.reset()
    env.step(ACTION)
    env.close()
    assert [episode.observations["place"].tolist() for episode in episodes] == [
        [[0, number, t] for t in range(2)] for number in range(2)
    ]
    assert all(len(values) == 1 for episode in episodes for values in episode.infos.values())


def test_a_bad_action_does_not_reach_the_environment_or_change_the_episode():
    episodes = []
    env = EpisodeRecorder(Numbered([[2]]), episodes.append)
    env.reset()
    for call in range(2):
        with pytest.raises(ValueError, match=rf"action at step {call} must have shape \(2,\), got \(3,\)"):
            env.step(np.zeros(3))
        assert env.unwrapped.place[2] == call
        env.step(np.float32([call, 0]))
    assert episodes[0].actions.tolist() == [[0, 0], [1, 0]]


def test_a_space_that_changes_at_reset_is_an_error():
    episodes = []
    env = EpisodeRecorder(Numbered([[9]]), episodes.append)
    env.reset()
    env.step(ACTION)
    env.unwrapped.observation_space = spaces.Dict(place=spaces.Box(0, np.inf, (3,)))
    with pytest.raises(ValueError, match="the observation space changed"):
        env.reset()
    assert [len(episode) for episode in episodes] == [1]
    with pytest.raises(ResetNeeded):
        env.step(ACTION)


def test_the_error_of_a_sink_has_the_result_of_the_step_and_recording_continues():
    served = []
    env = EpisodeRecorder(Numbered([[2]]), broken, served.append)
    env.reset()
    env.step(ACTION)
    with pytest.raises(SinkError, match="broken raised OSError") as caught:
        env.step(ACTION)
    observation, _, terminated, _, _ = caught.value.result
    assert terminated
    assert observation["place"] is env.unwrapped.place
    env.reset()
    env.step(ACTION)
    with pytest.raises(SinkError):
        env.close()
    assert [len(episode) for episode in served] == [2, 1]


def test_a_keyboard_interrupt_is_raised_even_if_a_sink_raises():
    with pytest.raises(KeyboardInterrupt) as caught:
        drive(EpisodeRecorder(Faulty(interrupt), broken), 3)
    assert isinstance(caught.value.__cause__, SinkError)


# --- several environments -------------------------------------------------------------------------

LENGTHS = [[9], [2], [4]]


def step(env, times=1):
    for _ in range(times):
        result = env.step(np.zeros((env.num_envs, 2), np.float32))
    return result


class FaultyVector(gym.vector.VectorWrapper):
    """A vector environment with a fault at one of its steps."""

    def __init__(self, change=lambda result: None, mode=NEXT_STEP, at=3, lengths=LENGTHS):
        super().__init__(vector(3, lengths, mode))
        self.change, self.at, self.steps = change, at, 0

    def step(self, actions):
        result = list(self.env.step(actions))
        self.steps += 1
        if self.steps == self.at:
            self.change(result)
        return tuple(result)


def drop(key):
    """Return a function that removes a key from the infos."""
    return lambda result: result[4].pop(key)


PLACE = np.zeros((3, 3))
VECTOR_FAULTS = [
    (put(0, np.zeros((3, 2)), "place"), "place at step 3 of environment 0 must have shape (3,), got (2,)"),
    (put(0, [[0.0] * 3, [0.0], [0.0] * 3], "place"), "place at step 1 of environment 1 must have shape"),
    (put(0, {"place": PLACE}), "observation/nested/odd is missing in the batch"),
    (put(1, ["a", "b", "c"]), "rewards must be numbers of shape (3,), one per environment"),
    (put(2, np.zeros(3)), "terminations must be bools of shape (3,)"),
    (put(3, np.zeros(2, bool)), "truncations must be bools of shape (3,)"),
    (put(4, np.array([True, True, False]), "_odd"), "info has no 'odd' at step 2 of environment 2"),
    (put(4, np.array([1, None, 2]), "odd"), "info 'odd' must be a number, a string or an array"),
    (put(4, np.array([1, "a", [2]], object), "odd"), "info 'odd' must have the same shape and type in all"),
    (put(4, [{}, {"odd": 1}, {}]), "info has no 'odd' at step 2 of environment 0"),
    (put(4, [{}, {}]), "(one per environment) or a single dict of arrays, got list of length 2"),
]


@pytest.mark.parametrize(("fault", "message"), VECTOR_FAULTS)
def test_an_invalid_value_is_named_and_the_steps_before_are_kept(fault, message):
    """When the fault occurs, environment 1 is in its second episode."""
    episodes = []
    env = VectorEpisodeRecorder(FaultyVector(fault, DISABLED), episodes.append, info_keys=["odd"])
    env.reset()
    step(env, 2)
    env.reset(options={"reset_mask": np.array([False, True, False])})
    with pytest.raises(ValueError, match=re.escape(message)):
        step(env)
    assert [(len(episode), episode.truncated) for episode in episodes] == [(2, False), (2, True), (2, True)]
    with pytest.raises(ResetNeeded):
        step(env)
    env.reset()
    step(env)


FINAL_FAULTS = [
    (drop("final_obs"), "infos have no 'final_obs' at step 2 of environment 1, whose episode ended"),
    (put(4, [{}, {}, {}]), "infos have no 'final_obs' at step 2 of environment 1"),
    (drop("final_info"), "info has no 'odd' in final_info at step 1 of environment 1"),
    (put(4, np.array([None, {"place": np.zeros(3)}, None]), "final_obs"), "odd is missing at step 2 of"),
    (put(4, {"place": PLACE}, "final_obs"), "observation/nested/odd is missing in final_obs"),
]


@pytest.mark.parametrize(("fault", "message"), FINAL_FAULTS)
def test_missing_last_states_are_named(fault, message):
    episodes = []
    env = VectorEpisodeRecorder(FaultyVector(fault, SAME_STEP, at=2), episodes.append, info_keys=["odd"])
    env.reset()
    step(env)
    with pytest.raises(ValueError, match=re.escape(message)):
        step(env)
    assert [(len(episode), episode.truncated) for episode in episodes] == [(1, True)] * 3


@pytest.mark.parametrize("lengths", [LENGTHS, [[2]]])
def test_an_interrupt_in_the_environment_loses_no_step_and_a_reset_is_needed(lengths):
    """With episodes of two steps, the interrupt comes at the begin of all next episodes."""
    episodes = []
    env = VectorEpisodeRecorder(FaultyVector(interrupt, lengths=lengths), episodes.append)
    env.reset()
    step(env, 2)
    with pytest.raises(KeyboardInterrupt):
        step(env)
    assert [len(episode) for episode in episodes] == [2, 2, 2]
    with pytest.raises(ResetNeeded):
        step(env)


def test_bad_actions_and_reset_masks_do_not_reach_the_environments():
    env = VectorEpisodeRecorder(FaultyVector())
    env.reset()
    with pytest.raises(ValueError, match=r"'reset_mask'\] must be a bool array of shape \(3,\)"):
        env.reset(options={"reset_mask": [1, 0, 0]})
    with pytest.raises(ValueError, match=r"action at step 0 of environment 0 must have shape \(2,\)"):
        env.step(np.zeros((3, 1)))
    assert env.env.steps == 0
    env.step(np.zeros((3, 2)))


def test_environments_that_ended_must_be_reset_before_the_next_step():
    env = VectorEpisodeRecorder(FaultyVector(mode=DISABLED))
    with pytest.raises(ResetNeeded, match=r"in the environments \[0, 1, 2\]; call reset"):
        step(env)
    env.reset()
    step(env, 2)
    with pytest.raises(ResetNeeded, match=r"in the environments \[1\]; call reset"):
        step(env)
    env.reset(options={"reset_mask": np.array([False, True, False])})
    step(env)


# --- arguments ------------------------------------------------------------------------------------


class WithoutMode(gym.vector.VectorWrapper):
    metadata = {}  # noqa: RUF012 - as VectorEnv declares it


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: EpisodeRecorder(gym.make_vec("CartPole-v1")), TypeError, "use VectorEpisodeRecorder"),
        (lambda: VectorEpisodeRecorder(gym.make("CartPole-v1")), TypeError, "use EpisodeRecorder"),
        (lambda: VectorEpisodeRecorder(WithoutMode(FaultyVector())), ValueError, "AutoresetMode, got None"),
        (lambda: EpisodeRecorder(Numbered(), max_episode_steps=2.5), ValueError, "max_episode_steps"),
        (lambda: VectorEpisodeRecorder(FaultyVector(), max_episode_steps=0), ValueError, "max_episode_steps"),
        (lambda: VectorEpisodeRecorder(FaultyVector(), info_keys=[1]), TypeError, "info_keys must be a list"),
        (lambda: EpisodeRecorder(Numbered(), 5), TypeError, "a sink must be callable"),
    ],
)
def test_invalid_arguments_are_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_recorder_inside_that_has_the_same_sink_is_an_error():
    first, second = [], []
    for wrap, env in ((EpisodeRecorder, Numbered()), (VectorEpisodeRecorder, FaultyVector())):
        inner = wrap(env, first.append)
        with pytest.raises(ValueError, match="recorder inside of env"):
            wrap(inner, second.append, first.append)
        wrap(inner, second.append)
