"""Internals, `layout.py`: segments of episodes with one goal."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from her_wrappers import Episodes
from her_wrappers.replay.episode_index import SEGMENT
from her_wrappers.replay.layout import StepLayout
from tests.support.buffers import plain_buffer
from tests.support.counting import ACTIONS

PARTS = spaces.Dict(where=spaces.Box(-9, 9, (3,), np.float32), which=spaces.Discrete(9))


OF_PARTS = spaces.Dict(observation=spaces.Discrete(9), achieved_goal=PARTS, desired_goal=PARTS)


def segments_of(desired, lengths):
    """Return the first step of each step's segment: successive steps with equal goals in both states."""
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
    where[:, 2] = [-0.0 if first else 0.0 for first, _ in goals]  # 0.0 and -0.0 are different goals
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
    layout = StepLayout.of(OF_PARTS, ACTIONS)
    packed = layout.pack(layout.validate(episodes), np.zeros(len(lengths), bool))

    expected = segments_of(goals, lengths)
    segments = packed.segments.view(SEGMENT)[:, 0][packed.segment_of_step]
    t = np.concatenate([np.arange(length) for length in lengths])
    np.testing.assert_array_equal(np.unique(expected, return_inverse=True)[1], packed.segment_of_step)
    assert len(packed.segments) == len(packed.desired) == len(set(expected))
    np.testing.assert_array_equal(segments["episode"], np.repeat(np.arange(len(lengths)), lengths))
    np.testing.assert_array_equal(segments["length"], np.repeat(lengths, lengths))
    np.testing.assert_array_equal(segments["first_step"] + t, np.arange(steps))
    buffer = plain_buffer(steps, OF_PARTS)
    buffer.add_episodes(episodes)
    stored = Episodes.of(buffer.episodes()).observations
    for key, parts in (("achieved_goal", achieved), ("desired_goal", desired)):
        for part, leaf in parts.items():
            assert stored[key][part].tobytes() == leaf.tobytes()
