"""An error at any instruction leaves the effect of the whole call, of none of it, or of evictions only."""

from __future__ import annotations

import contextlib
import copy

import gymnasium as gym
import numpy as np
import pytest

from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, Priority
from tests.support.buffers import FUNCTIONS, transitions
from tests.support.counting import ACTIONS, SPACE, counting_buffer, counting_episode
from tests.support.interrupts import Countdown

REPLAY = "her_wrappers/replay/"

FILES = REPLAY, "recording/open_", "recording/vector_episode", "recording/episode_accumulator"
"""Parts of the paths of the files in which errors are raised."""

STRIDES = [101, pytest.param(5, marks=pytest.mark.slow)]


def full_buffer(**options):
    """Return a full buffer of 40 transitions with prefetched batches."""
    buffer = counting_buffer(buffer_size=40, prioritized=Priority(), **options)
    for number in range(6):
        buffer.add_episode(counting_episode(number, 5 + number))
    for _ in range(3):
        buffer.sample(8)
    return buffer


def stored(buffer):
    """Return the number and the length of each stored episode."""
    return [(int(episode.actions[0, 0]), len(episode)) for episode in buffer.episodes()]


def assert_rows_are_right(buffer):
    """Assert that each row of a batch is a recorded step with its own goal or an achieved one."""
    buffer.verify()
    known = dict(stored(buffer))
    if not known:
        return
    batch = buffer.sample(64)
    number, t = batch.observations["observation"].T
    assert {int(each) for each in number} <= known.keys()
    assert all(step < known[int(each)] for each, step in zip(number, t, strict=True))
    np.testing.assert_array_equal(batch.next_observations["observation"], np.stack([number, t + 1], axis=1))
    np.testing.assert_array_equal(batch.observations["achieved_goal"], batch.observations["observation"])
    goals = batch.observations["desired_goal"][batch.relabeled]
    assert all(1 <= s <= known[int(each)] for each, s in goals)


def add_many(buffer):
    buffer.add_episodes([counting_episode(number, 7) for number in (10, 11)])


def add_steps(buffer):
    for transition in transitions(counting_episode(10, 4, terminated=True)):
        buffer.add(*transition)
    buffer.truncate_open_episode()


def add_rows(buffer):
    steps = zip(
        *[transitions(counting_episode(number, 4, terminated=True)) for number in (10, 11)], strict=True
    )
    for step in steps:
        obs, action, reward, next_obs, terminated, truncated, _ = zip(*step, strict=True)
        obs, next_obs = (
            {key: np.stack([each[key] for each in rows]) for key in SPACE} for rows in (obs, next_obs)
        )
        buffer.add(
            obs, np.stack(action), np.array(reward), next_obs, np.array(terminated), np.array(truncated)
        )
    buffer.truncate_open_episode()


def sample(buffer):
    for size in (8, 8, 16):
        buffer.sample(size)


def update(buffer):
    index = buffer._storage.memory.index.first.step
    buffer.update_priorities(np.arange(index, index + 20), np.arange(20.0))


OPERATIONS = {
    "add_episodes": add_many,
    "add": add_steps,
    "add, two environments": add_rows,
    "sample": sample,
    "update_priorities": update,
    "clear": HindsightReplayBuffer.clear,
}


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_an_error_at_any_instruction_gives_no_wrong_row(operation, error, stride):
    original = full_buffer()
    before, expected = stored(original), copy.deepcopy(original)
    counting = Countdown(10**9, *FILES)
    with counting.running():
        operation(expected)
    after = stored(expected)
    for number in range(0, 10**9 - counting.left, stride):
        buffer, countdown = copy.deepcopy(original), Countdown(number, *FILES, error=error)
        with countdown.running(), pytest.raises(error):
            operation(buffer)
        found = stored(buffer)
        assert found == after or found == before[len(before) - len(found) :]
        assert_rows_are_right(buffer)
        buffer.truncate_open_episode()
        buffer.add_episodes([counting_episode(number, 6) for number in (20, 21)])
        assert stored(buffer)[-2:] == [(20, 6), (21, 6)]
        numbers = [number for number, _ in stored(buffer)]
        assert numbers == sorted(set(numbers))
        assert_rows_are_right(buffer)


@pytest.mark.parametrize("stride", [1009, pytest.param(53, marks=pytest.mark.slow)])
def test_an_interrupted_save_leaves_the_previous_file(stride, tmp_path):
    buffer = full_buffer()
    buffer.save(tmp_path / "buffer")
    before = stored(buffer)
    add_many(buffer)
    after, counting = stored(buffer), Countdown(10**9, REPLAY)
    with counting.running():
        buffer.save(tmp_path / "other")
    for number in range(0, 10**9 - counting.left, stride):
        # The last counts may lie past the end: a later save takes fewer instructions than the counted one.
        with contextlib.suppress(KeyboardInterrupt), Countdown(number, REPLAY).running():
            buffer.save(tmp_path / "buffer")
        loaded = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS)
        assert stored(loaded) in (before, after)
        assert_rows_are_right(loaded)
        assert_rows_are_right(buffer)


class CountingEnv(gym.Env):
    """State t of episode n is (n, t); episodes have three steps."""

    observation_space = SPACE
    action_space = ACTIONS

    def __init__(self):
        self.state = np.array([-1.0, 0.0])

    def observe(self):
        return {key: self.state.copy() for key in SPACE}

    def reset(self, *, seed=None, options=None):
        self.state[:] = self.state[0] + 1, 0
        return self.observe(), {}

    def step(self, action):
        self.state[1] += 1
        return self.observe(), -1.0, bool(self.state[1] == 3), False, {}


def run_recorded(countdown):
    """Record some episodes with an interrupt at one instruction, then continue; return the buffer."""
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
    except KeyboardInterrupt:
        play(4)
    recorder.close()
    return buffer


def stored_starts(buffer):
    """Return the first state of each stored episode."""
    return [tuple(episode.observations["observation"][0]) for episode in buffer.episodes()]


@pytest.mark.arrays_only("interrupts in the storage of tensors are tested above")
@pytest.mark.parametrize("stride", [211, pytest.param(13, marks=pytest.mark.slow)])
def test_recorders_add_each_episode_once_despite_an_interrupt_at_any_instruction(stride):
    files = REPLAY, "her_wrappers/recording/"
    counting = Countdown(10**9, *files)
    expected = [
        tuple(episode.observations["observation"][0]) for episode in run_recorded(counting).episodes()
    ]
    assert expected == [(0, 0), (1, 0), (2, 0)]
    for number in range(0, 10**9 - counting.left, stride):
        countdown = Countdown(number, *files)
        buffer = run_recorded(countdown)
        assert countdown.has_raised
        buffer.verify()
        found = [episode.observations["observation"] for episode in buffer.episodes()]
        numbers = [int(rows[0, 0]) for rows in found]
        assert numbers == sorted(set(numbers))
        for rows in found:
            np.testing.assert_array_equal(rows[:, 1], np.arange(len(rows)))
