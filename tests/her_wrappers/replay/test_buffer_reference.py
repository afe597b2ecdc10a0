"""The buffer compared with plain Python lists, after random sequences of calls."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from her_wrappers import Priority
from tests.support.reference_world import ACTIONS, GOAL_OPTIONS, SPACES, World

WORLDS = st.fixed_dictionaries({
    "name": st.sampled_from(list(SPACES)),
    "termination": st.sampled_from([None, "recompute", "success", "keep", "never", "function"]),
    "with_infos": st.booleans(),
    "options": st.builds(
        lambda shares, rest: shares | rest,
        st.sampled_from(GOAL_OPTIONS),
        st.fixed_dictionaries({
            "buffer_size": st.integers(1, 40),
            "resample_achieved_goals": st.booleans(),
            "n_steps": st.sampled_from([1, 1, 2, 3, 5, 100]),
            "gamma": st.sampled_from([0.9, 0.99, 1.0]),
            "prioritized": st.sampled_from([None, Priority(beta=0.5), Priority(alpha=1, beta=1, eps=0.01)]),
            "seed": st.integers(0, 2**32),
        }),
    ),
    "seed": st.integers(0, 2**32),
})
PROGRAMS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(1, 40)), min_size=1, max_size=20)


def run(world, program):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the recorded rewards are random
        world = World(**world)
        for action, count in program:
            getattr(world, action)(count)
            world.check()
        world.sample(40)


@settings(max_examples=400)
@given(WORLDS, PROGRAMS)
def test_every_row_is_correct_after_any_sequence_of_calls(world, program):
    run(world, program)


@pytest.mark.slow
@settings(max_examples=1000)
@given(WORLDS, PROGRAMS)
def test_every_row_is_correct_after_thousands_of_sequences_of_calls(world, program):
    run(world, program)
