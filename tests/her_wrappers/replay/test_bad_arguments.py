"""Invalid arguments raise at once, with one sentence."""

from __future__ import annotations

import re

import gymnasium as gym
import numpy as np
import pytest

from her_wrappers import HindsightReplayBuffer, Mixture
from tests.support.buffers import filled
from tests.support.counting import ACTIONS, SPACE, counting_buffer, counting_episode

BAD_ARGUMENTS = [
    ({"buffer_size": 0}, "buffer_size must be a whole number >= 1, got 0"),
    ({"buffer_size": 1e6}, "buffer_size must be a whole number >= 1, got 1000000.0"),
    ({"n_sampled_goal": -1}, "n_sampled_goal must be a whole number >= 0, got -1"),
    (
        {"goal_selection_strategy": "futur"},
        "unknown goal_selection_strategy 'futur'; choose from 'future', 'final', 'episode', 'geometric', "
        "'random', 'desired', a Mixture of them, or a function",
    ),
    (
        {"termination": ["keep"]},
        "unknown termination ['keep']; choose from 'recompute', 'success', 'keep', 'never', "
        "or pass a function",
    ),
    (
        {"n_sampled_goal": 0, "termination": "always"},
        "unknown termination 'always'; choose from 'recompute', 'success', 'keep', 'never', "
        "or pass a function",
    ),
    (
        {"buffer_size": 10**400},
        f"buffer_size must be at most {2**62}, got {10**400}",
    ),
    ({"seed": -1}, "seed must be a whole number >= 0 or None, got -1"),
    ({"seed": "0"}, "seed must be a whole number >= 0 or None, got '0'"),
    ({"her_ratio": 1.5}, "her_ratio must lie in [0, 1], got 1.5"),
    ({"n_steps": 0}, "n_steps must be a whole number >= 1, got 0"),
    ({"n_steps": 2.5}, "n_steps must be a whole number >= 1, got 2.5"),
    ({"gamma": 0}, "gamma must lie in (0, 1], got 0"),
    ({"gamma": 1.01}, "gamma must lie in (0, 1], got 1.01"),
    ({"gamma": float("nan")}, "gamma must lie in (0, 1], got nan"),
    ({"gamma": "0.99"}, "gamma must lie in (0, 1], got '0.99'"),
    (
        {"her_ratio": 0.5, "n_sampled_goal": 4},
        "the relabeled share must be given once, got n_sampled_goal and her_ratio",
    ),
    (
        {"her_ratio": 0.5, "goal_selection_strategy": Mixture({"future": 0.5, "original": 0.5})},
        "the relabeled share must be given once, got her_ratio and Mixture with a share of 'original'",
    ),
    (
        {"termination": "always"},
        "unknown termination 'always'; choose from 'recompute', 'success', 'keep', 'never', "
        "or pass a function",
    ),
    (
        {"termination": "recompute", "compute_terminated": None},
        'termination="recompute" needs compute_terminated(achieved_goal, desired_goal, info); '
        "define it on the environment or pass such a function as termination=",
    ),
    (
        {"compute_reward": None},
        "relabeling needs compute_reward(achieved_goal, desired_goal, info); "
        "pass compute_reward= or reward_fn=, or n_sampled_goal=0 for plain replay",
    ),
    (
        {"reward_fn": lambda batch: np.zeros(len(batch))},
        "rewards must be computed in one way, got compute_reward and reward_fn; pass one",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD_ARGUMENTS)
def test_a_bad_argument_is_an_error_at_once(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        counting_buffer(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"goal_selection_strategy": ["future"]},
            "goal_selection_strategy must be a name, a function or a Mixture",
        ),
        (
            {"compute_reward": 5},
            "compute_reward must be a function of (achieved_goal, desired_goal, info), got 5",
        ),
        ({"resample_achieved_goals": "no"}, "resample_achieved_goals must be True or False, got 'no'"),
        ({"info_keys": "cost"}, "info_keys must be a list of strings, got the string 'cost'; write ['cost']"),
    ],
)
def test_an_argument_of_a_wrong_type_is_an_error_at_once(options, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        counting_buffer(**options)


def test_only_episodes_are_added_as_episodes():
    with pytest.raises(TypeError, match="add_episode takes an Episode, got dict"):
        counting_buffer().add_episode({"observations": []})


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"future": 0.5}, "shares of a Mixture must sum to 1, got 0.5"),
        ({"future": 1.5, "final": -0.5}, "shares of a Mixture must lie in (0, 1], got 1.5 for 'future'"),
    ],
)
def test_shares_that_do_not_add_up_are_an_error(shares, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Mixture(shares)


@pytest.mark.parametrize("batch_size", [0, -3, 2.0, True, None])
def test_a_bad_batch_size_is_an_error(batch_size):
    with pytest.raises(
        ValueError, match=re.escape(f"batch_size must be a whole number >= 1, got {batch_size!r}")
    ):
        filled().sample(batch_size)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: counting_buffer(her_ratio="0.5"), "her_ratio must lie in [0, 1], got '0.5'"),
        (lambda: Mixture([("future", 1.0)]), "shares of a Mixture must be a dict of strategies, got [("),
        (lambda: Mixture({"future": None}), "shares of a Mixture must lie in (0, 1], got None for 'future'"),
        (
            lambda: counting_buffer(buffer_size=2**62),
            "and there is not enough memory; use a smaller buffer_size",
        ),
        (
            lambda: filled().add_episodes(counting_episode(0, 2)),
            "add_episodes takes an iterable of episodes, got one Episode; use add_episode",
        ),
    ],
)
def test_unusual_arguments_give_a_clear_error(call, message):
    with pytest.raises((TypeError, ValueError, MemoryError), match=re.escape(message)):
        call()


class WithoutReward(gym.Env):
    """An environment with the spaces of counting episodes and without ``compute_reward``."""

    observation_space, action_space = SPACE, ACTIONS


@pytest.mark.parametrize(
    "options",
    [{"n_sampled_goal": 0}, {"her_ratio": 0.0}, {"goal_selection_strategy": Mixture({"original": 1})}],
)
def test_an_environment_needs_no_reward_function_where_nothing_is_relabeled(options):
    buffer = HindsightReplayBuffer.for_env(WithoutReward(), **options)
    buffer.add_episode(counting_episode(0, 3))
    assert not buffer.sample(20).relabeled.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_sampled_goal": [4]}, "n_sampled_goal must be a whole number >= 0, got [4]"),
        ({"her_ratio": np.array(0.5)}, "her_ratio must lie in [0, 1], got array(0.5)"),
    ],
)
def test_a_share_that_is_not_a_number_is_an_error_in_for_env(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        HindsightReplayBuffer.for_env(WithoutReward(), **options)


@pytest.mark.parametrize("share", [{"n_sampled_goal": 0}, {"her_ratio": 0}])
def test_an_unknown_strategy_is_an_error_even_if_nothing_is_relabeled(share):
    with pytest.raises(ValueError, match="unknown goal_selection_strategy 'futur'; choose from"):
        counting_buffer(goal_selection_strategy="futur", **share)
