"""Bad arguments of check_goal_env raise an error of one sentence."""

from __future__ import annotations

import re

import pytest

from her_wrappers import check_goal_env
from tests.support.specimens.reach import Reach


def fails():
    raise OSError("no display")


BAD = [
    (
        lambda: check_goal_env("FetchReach-v4"),
        TypeError,
        "expected a gymnasium Env or VectorEnv, or a function that returns one, got str; "
        "pass gymnasium.make(id) for an id",
    ),
    (
        lambda: check_goal_env(lambda: 5),
        TypeError,
        "the factory must return a gymnasium Env or VectorEnv, got int",
    ),
    (lambda: check_goal_env(fails), ValueError, "the factory raised OSError: no display"),
    (lambda: check_goal_env(Reach, max_steps=0), ValueError, "max_steps must be an integer >= 1, got 0"),
    (
        lambda: check_goal_env(Reach, reset_options=["goal"]),
        TypeError,
        "reset_options must be a dict or a list of dicts, got 'goal'",
    ),
    (
        lambda: check_goal_env(Reach, max_steps=10.5),
        ValueError,
        "max_steps must be an integer >= 1, got 10.5",
    ),
    (lambda: check_goal_env(Reach, seed=-1), ValueError, "seed must be an integer >= 0, got -1"),
    (
        lambda: check_goal_env(Reach, policy="random"),
        TypeError,
        "policy must be a function of an observation, got 'random'",
    ),
    (
        lambda: check_goal_env(Reach, reset_options=5),
        TypeError,
        "reset_options must be a dict or a list of dicts, got 5",
    ),
    (
        lambda: check_goal_env(Reach, select=["GE107"]),
        ValueError,
        "unknown rule code 'GE107'; did you mean GE207 or GE117 or GE110?",
    ),
    (
        lambda: check_goal_env(Reach, ignore=["reward"]),
        ValueError,
        "unknown rule code 'reward'; `her rules` lists them",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_a_bad_argument_raises_an_error_of_one_sentence(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()
