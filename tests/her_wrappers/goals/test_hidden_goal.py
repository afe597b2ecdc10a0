"""find_hidden_goal: components of the achieved goal that other values of the observation do not show."""

import numpy as np
import pytest

from her_wrappers.goals.in_observation import find_hidden_goal

EPISODES, STEPS = 40, 20
EPISODE = np.arange(EPISODES).repeat(STEPS)


def walks(rng, size, step=0.1):
    """Return walks in all episodes, which start at random places, as (n, size) floats."""
    starts, steps = rng.uniform(-1, 1, (EPISODES, 1, size)), rng.uniform(-step, step, (EPISODES, STEPS, size))
    return (starts + steps.cumsum(1)).reshape(-1, size)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def found(observation, achieved, desired=None, **more):
    desired = np.zeros_like(achieved) if desired is None else desired
    goals = {"observation": observation, "achieved_goal": achieved, "desired_goal": desired}
    return find_hidden_goal(goals | more, EPISODE)


def test_an_independent_goal_is_hidden_and_only_hidden_components_are_named(rng):
    assert found(walks(rng, 4), walks(rng, 2)) == "achieved_goal"
    hand, block = walks(rng, 2), walks(rng, 2)
    assert found(hand, np.concatenate([hand, block], 1)) == "achieved_goal[2:4]"


def test_an_object_that_rests_while_many_joints_move_is_hidden(rng):
    blocks = rng.uniform(-1, 1, (EPISODES, 3)).repeat(STEPS, 0)
    assert found(walks(rng, 30), blocks) == "achieved_goal"


def test_no_statement_if_many_joints_might_determine_a_goal_that_moves(rng):
    joints = walks(rng, 30)
    assert found(joints, np.sin(20 * joints[:, :2].sum(1, keepdims=True))) is None


@pytest.mark.parametrize(
    "function",
    [
        lambda block: block,
        lambda block: np.concatenate([np.cos(3 * block), np.sin(3 * block)], 1),
        lambda block: np.tanh(block) + 0.1 * np.random.default_rng(1).normal(size=block.shape),
    ],
)
def test_goals_that_a_function_of_the_observation_gives_are_seen(rng, function):
    hand, block = walks(rng, 3), walks(rng, 2)
    assert found(np.concatenate([hand, function(block)], 1), block) is None


def test_codes_of_goals_are_seen(rng):
    bits = rng.integers(0, 2, (len(EPISODE), 12))
    code = bits @ 2 ** np.arange(12)
    assert found(code[:, None], bits.astype(float)) is None


def test_another_key_can_show_the_goal(rng):
    hand, block = walks(rng, 2), walks(rng, 2)
    assert found(hand, block, camera=block + 1) is None
    assert found(hand, block, image=np.zeros((len(block), 4, 4), np.uint8)) is None


def test_goals_that_are_commands_hardly_move_or_have_no_observation_are_not_judged(rng):
    hand, block = walks(rng, 2), walks(rng, 2)
    assert found(hand, block, desired=block) is None
    assert found(hand, block * 1e-3, desired=block) is None
    assert found(np.empty((len(hand), 0)), block) is None
    few = {"observation": hand[:90], "achieved_goal": block[:90], "desired_goal": block[:90] * 0}
    assert find_hidden_goal(few, EPISODE[:90]) is None


def test_equal_observations_of_few_resets_show_that_positions_are_hidden(rng):
    episode = np.arange(14).repeat(100)
    joints, position = rng.normal(size=(14, 100, 30)), rng.normal(size=(14, 100, 2))  # of a robot in a maze
    joints[:, 0] = 0
    position[:, 0] *= 10
    joints, position = joints.reshape(-1, 30), position.cumsum(1).reshape(-1, 2)
    states = {"observation": joints, "achieved_goal": position, "desired_goal": position * 0}
    assert find_hidden_goal(states, episode) == "achieved_goal"
    assert find_hidden_goal(states | {"observation": np.hstack([joints, position])}, episode) is None
