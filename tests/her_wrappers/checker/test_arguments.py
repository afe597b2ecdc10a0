"""Bad arguments of check_goal_env raise an error that names the argument."""

import pytest

from her_wrappers import check_goal_env
from tests.support.specimens.reach import Reach


def fails():
    raise OSError("no display")


@pytest.mark.parametrize(
    ("env", "options", "error", "message"),
    [
        ("FetchReach-v4", {}, TypeError, "got str; for an id, pass gymnasium.make"),
        (lambda: 5, {}, TypeError, "the factory function must return an Env or VectorEnv, got int"),
        (fails, {}, ValueError, "the factory function raised OSError: no display"),
        (Reach, {"max_steps": 10.5}, ValueError, "max_steps must be .*, got 10.5"),
        (Reach, {"max_seconds": 0}, ValueError, "max_seconds must be a positive number .*, got 0"),
        (Reach, {"seed": -1}, ValueError, "seed must be .* >= 0, got -1"),
        (Reach, {"policy": "random"}, TypeError, "policy must be .*, got 'random'"),
        (Reach, {"reset_options": ["goal"]}, TypeError, "reset_options must be .*, but 'goal' is not a dict"),
        (Reach, {"select": ["GE107"]}, ValueError, "unknown rule code 'GE107'; did you mean GE"),
        (Reach, {"ignore": ["reward"]}, ValueError, "unknown rule code 'reward'"),
    ],
)
def test_a_bad_argument_raises_an_error(env, options, error, message):
    with pytest.raises(error, match=message):
        check_goal_env(env, **options)
