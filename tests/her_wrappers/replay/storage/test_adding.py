"""What is added comes back, whatever the goals do, whatever the rewards are, wherever the memory ends."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from her_wrappers import Episode, Episodes, HindsightReplayBuffer
from her_wrappers.recording.episode_accumulator import EpisodeAccumulator
from her_wrappers.replay.arrays import as_bytes
from her_wrappers.replay.storage.infos import InfoLayout
from her_wrappers.replay.storage.step_layout import StepLayout
from tests.counting import ACTIONS, SPACE, counting_episode

LARGEST = float(np.finfo(np.float32).max)
ROUNDS_TO_LARGEST = np.nextafter(2.0**128 - 2.0**103, 0)

PARTS = spaces.Dict(where=spaces.Box(-9, 9, (3,), np.float32), which=spaces.Discrete(9))
OF_PARTS = spaces.Dict(observation=spaces.Discrete(9), achieved_goal=PARTS, desired_goal=PARTS)


def plain_buffer(size, space=SPACE, **options):
    return HindsightReplayBuffer(space, ACTIONS, buffer_size=size, n_sampled_goal=0, **options)


def assert_same(episode, expected):
    """Every array is the same, to the last bit."""
    for key, leaf in expected.observations.items():
        np.testing.assert_array_equal(episode.observations[key], leaf)
    np.testing.assert_array_equal(episode.actions, expected.actions)
    np.testing.assert_array_equal(episode.rewards, expected.rewards)
    assert (episode.terminated, episode.truncated) == (expected.terminated, expected.truncated)


# --- wherever the memory ends ---------------------------------------------------------------------


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("lengths", [(1,), (1, 1, 1), (3,), (2, 1), (1, 4, 2), (7,)])
def test_episodes_come_back_wherever_the_memory_ends_among_them(lengths, together):
    buffer, added = plain_buffer(7), []
    for turn in range(40):  # more than there are places for states to begin at
        new = [
            counting_episode(10 * turn + i, length, terminated=i % 2 == 0, rewards=np.arange(length) + 0.5)
            for i, length in enumerate(lengths)
        ]
        added += new
        if together:
            buffer.add_episodes(new)
        else:
            for episode in new:
                buffer.add_episode(episode)
        stored = list(buffer.episodes())
        for episode, expected in zip(reversed(stored), reversed(added), strict=False):
            assert_same(episode, expected)
        assert len(buffer) == sum(map(len, stored)) >= min(7, sum(map(len, added))) - max(lengths) + 1
        buffer.verify()


def test_steps_find_their_segments_after_more_segments_than_32_bits_count():
    buffer = plain_buffer(100)
    buffer._parts.backend.storage._table.segments.restart(2**31 - 70)
    for number in range(200):
        buffer.add_episode(counting_episode(number, 1 + number % 3))
        buffer.verify()
    assert [episode.observations["observation"][0, 0] for episode in buffer.episodes()][-1] == 199


# --- whatever the goals do ------------------------------------------------------------------------


def segments_of(desired, lengths):
    """For each step, the first step of its episode since which the goals before and after are the same."""
    segments, state, number = [], 0, 0
    for length in lengths:
        pairs = [(desired[state + t], desired[state + t + 1]) for t in range(length)]
        for t, pair in enumerate(pairs):
            begins = t == 0 or pair != pairs[t - 1]
            segments.append(number if begins else segments[-1])
            number += 1
        state += length + 1
    return segments


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.data())
def test_a_segment_is_a_stretch_of_an_episode_with_the_same_goals_before_and_after(lengths, data):
    states, steps = sum(lengths) + len(lengths), sum(lengths)
    goals = data.draw(
        st.lists(st.tuples(st.booleans(), st.booleans()), min_size=states, max_size=states), "goals"
    )
    where = np.zeros((states, 3), np.float32)
    where[:, 2] = [-0.0 if first else 0.0 for first, _ in goals]  # zeros of two kinds are two goals
    desired = {"where": where, "which": np.array([second for _, second in goals], np.int64)}
    achieved = {"where": np.ones((states, 3), np.float32), "which": np.arange(states) % 9}
    episodes = Episodes(
        observations={
            "observation": np.zeros(states, np.int64),
            "achieved_goal": achieved,
            "desired_goal": desired,
        },
        actions=np.zeros((steps, 1)),
        rewards=np.zeros(steps),
        lengths=np.array(lengths),
        terminated=np.zeros(len(lengths), bool),
        truncated=np.ones(len(lengths), bool),
    )
    encoded = StepLayout(OF_PARTS, ACTIONS, InfoLayout((), "list")).encode(episodes)

    expected = segments_of(goals, lengths)
    segments = encoded.segments[encoded.segment_of_step]
    np.testing.assert_array_equal(np.unique(expected, return_inverse=True)[1], encoded.segment_of_step)
    assert len(encoded.segments) == len(encoded.desired) == len(set(expected))
    np.testing.assert_array_equal(segments["episode"], np.repeat(np.arange(len(lengths)), lengths))
    np.testing.assert_array_equal(segments["length"], np.repeat(lengths, lengths))
    np.testing.assert_array_equal(segments["first_index"] + encoded.t, np.arange(steps))
    buffer = plain_buffer(steps, OF_PARTS)
    buffer.add_episodes(episodes)
    stored = Episodes.of(buffer.episodes()).observations
    for key, parts in (("achieved_goal", achieved), ("desired_goal", desired)):
        for part, leaf in parts.items():
            assert stored[key][part].tobytes() == leaf.tobytes()


@given(
    st.integers(1, 6),
    st.integers(0, 3),
    st.sampled_from([np.uint8, np.float32, np.float64]),
    st.data(),
)
def test_rows_are_the_same_when_all_their_bytes_are(rows, width, dtype, data):
    shape, size = (rows, width), rows * width * np.dtype(dtype).itemsize
    bits = [np.array(data.draw(st.lists(st.sampled_from([0, 1, 128]), min_size=size, max_size=size)))] * 2
    bits[1] = bits[1].copy()
    if size:
        bits[1][data.draw(st.integers(0, size - 1))] = data.draw(st.sampled_from([0, 255]))
    first, second = (part.astype(np.uint8).view(dtype).reshape(shape) for part in bits)
    expected = [a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True)]
    assert (as_bytes(first) == as_bytes(second)).tolist() == expected
    assert (as_bytes(first) != as_bytes(second)).tolist() == [not same for same in expected]
    gaps = np.repeat(second, 2, axis=0)[::2]
    assert (as_bytes(first) == as_bytes(gaps)).tolist() == expected


@pytest.mark.parametrize("seen", [np.array([1.0, 0.0]), np.array([0, 1.875], np.float32).view(np.int32)])
def test_an_observation_whose_bits_are_a_goals_in_another_dtype_is_not_the_goal(seen):
    box = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    goals = np.tile(np.array([0, 1.875], np.float32), (4, 1))
    observations = {"observation": np.tile(seen, (4, 1)), "achieved_goal": goals, "desired_goal": goals}
    buffer = plain_buffer(3, spaces.Dict(dict.fromkeys(observations, box)))
    buffer.add_episode(counting_episode(0, 3, observations=observations))
    [episode] = buffer.episodes()
    np.testing.assert_array_equal(episode.observations["observation"], observations["observation"])


# --- whatever the rewards are ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "rewards",
    [
        np.array([LARGEST, -LARGEST, 0.0]),
        np.array([ROUNDS_TO_LARGEST, -ROUNDS_TO_LARGEST, 1e-300]),
        np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0]),
        np.array([True, False, True]),
        np.array([1, 2, 65504], np.float16),
        np.array([LARGEST, -0.0, 1], np.float32),
        np.array([3, 2**64 - 1, 0], np.uint64),
    ],
    ids=str,
)
def test_every_reward_that_float32_holds_is_stored_rounded_to_it(rewards):
    buffer = plain_buffer(3)
    buffer.add_episode(counting_episode(0, 3, rewards=rewards))
    [episode] = buffer.episodes()
    assert episode.rewards.tolist() == rewards.astype(np.float32).tolist()
    assert np.isfinite(episode.rewards).all()


@pytest.mark.parametrize("reward", [2.0**128 - 2.0**103, -1e39, 1e300, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("t", [0, 2])
def test_a_reward_that_float32_does_not_hold_is_refused_by_step_and_episode(reward, t):
    buffer, rewards = plain_buffer(9), np.zeros(3)
    rewards[t] = reward
    bad = counting_episode(1, 3, rewards=rewards)
    with pytest.raises(ValueError, match=rf"^rewards must be finite as float32, got .* at step {t}$"):
        buffer.add_episode(bad)
    message = rf"^episodes\[1\]: rewards must be finite as float32, got .* at step {t}$"
    with pytest.raises(ValueError, match=message):
        buffer.add_episodes([counting_episode(0, 2), bad])
    assert (len(buffer), buffer.num_episodes) == (0, 0)


def test_a_reward_that_not_even_a_double_holds_is_refused_without_a_warning():
    rewards = np.array([0, np.longdouble("1e4000")], np.longdouble)
    with pytest.raises(ValueError, match=r"^rewards must be finite as float32, got .* at step 1$"):
        plain_buffer(9).add_episode(counting_episode(0, 2, rewards=rewards))


@pytest.mark.parametrize("sign", [1, -1])
def test_add_takes_the_rewards_that_add_episode_takes(sign):
    buffer = plain_buffer(3)
    seen = dict.fromkeys(SPACE, np.zeros(2))
    with pytest.raises(ValueError, match=r"^reward must be finite as float32, got .* at step 0$"):
        buffer.add(seen, np.zeros(1), sign * (2.0**128 - 2.0**103), seen, False, True)
    buffer.add(seen, np.zeros(1), sign * ROUNDS_TO_LARGEST, seen, False, True)
    [episode] = buffer.episodes()
    assert episode.rewards.tolist() == [sign * LARGEST]


# --- without looking twice ------------------------------------------------------------------------


def test_what_is_not_looked_at_again_would_pass():
    recorded = EpisodeAccumulator(SPACE, ACTIONS, ["cost"])
    one, two = counting_episode(1, 1), counting_episode(2, 4)
    for episode in (one, two):
        recorded.resume(dataclasses.replace(episode, infos={"cost": np.arange(len(episode))}))
        finished = recorded.finish(terminated=np.bool_(True), truncated=False)
        assert isinstance(finished, Episode)
        checked = dataclasses.replace(finished)
        assert checked.__dict__ == finished.__dict__
        assert (type(finished.terminated), type(finished.truncated)) == (bool, bool)
    together = Episodes.of([one, two])
    checked = dataclasses.replace(together)
    np.testing.assert_array_equal(together.ends, checked.ends)
    assert together.ends.dtype == checked.ends.dtype == together.lengths.dtype == np.int64
