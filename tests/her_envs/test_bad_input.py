"""Bad input raises an error that names the argument, in the call that received it; episodes continue."""

import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

from her_envs import BitFlipping, Counting, PointMaze, PointPush, PointReach, TaskEnv, TaskVectorEnv
from tests.support.bundled import BIT_FLIPPING

BAD_OPTIONS = [
    (lambda: BitFlipping(n_bits=0), "n_bits must be an integer >= 1, got 0"),
    (lambda: BitFlipping(n_bits=2.5), "n_bits must be an integer >= 1, got 2.5"),
    (lambda: BitFlipping(n_bits=True), "n_bits must be an integer >= 1, got True"),
    (lambda: BitFlipping(goal="zeros"), "unknown goal 'zeros'"),
    (lambda: BitFlipping(observation="pixels"), "unknown observation 'pixels'"),
    (lambda: BitFlipping(n_bits=63, observation="integer"), "at most 62 bits, got n_bits=63"),
    (lambda: PointReach(success_radius=0), "success_radius must be a number in (0, 0.5], got 0"),
    (lambda: PointReach(step_size="fast"), "step_size must be a number in (0, 1], got 'fast'"),
    (lambda: PointReach(success_radius=True), "success_radius must be a number in (0, 0.5], got True"),
    (lambda: PointMaze(step_size=np.inf), "step_size must be a number in (0, inf), got inf"),
    (lambda: PointMaze(success_radius=0.6), "success_radius must be a number in (0, 0.5], got 0.6"),
    (lambda: PointPush(step_size=0.06), "step_size must be a number in (0, 0.05], got 0.06"),
    (lambda: PointPush(success_radius=-1), "success_radius must be a number in (0, 0.35], got -1"),
    (lambda: Counting(length=0), "length must be"),
    (lambda: TaskEnv(Counting(), max_steps=0), "max_steps must be"),
    (lambda: TaskEnv(Counting(), reward_type="shaped"), "unknown reward_type 'shaped'"),
    (lambda: TaskEnv(Counting(), render_mode="ascii"), "unknown render_mode 'ascii'"),
    (lambda: TaskEnv(Counting(), render_size=0), "render_size must be"),
    (lambda: gym.make_vec(BIT_FLIPPING, num_envs=0), "num_envs must be"),
    (lambda: gym.make_vec(BIT_FLIPPING, autoreset_mode="sometimes"), "unknown autoreset_mode 'sometimes'"),
    (
        lambda: gym.make_vec(BIT_FLIPPING, max_steps=3, max_episode_steps=4),
        "max_steps=3 and max_episode_steps=4 are two names of the same limit",
    ),
]


@pytest.mark.parametrize(("make_it", "message"), BAD_OPTIONS)
def test_bad_option_raises_an_error(make_it, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_it()


@pytest.mark.parametrize("env", [TaskEnv, TaskVectorEnv])
def test_environment_whose_constructor_raised_can_be_closed(env):
    env.__new__(env).close()


@pytest.mark.parametrize("task", [BitFlipping, 10])
def test_task_of_another_type_raises_an_error(task):
    with pytest.raises(TypeError, match="task must be an instance of GoalTask"):
        TaskEnv(task)


FLAGS = [
    lambda flag: TaskEnv(Counting(), terminate_on_success=flag),
    lambda flag: BitFlipping(continuous=flag),
    lambda flag: BitFlipping(channel_first=flag),
]


@pytest.mark.parametrize("make_it", FLAGS)
def test_string_is_not_accepted_as_a_bool(make_it):
    """``bool("no")`` is True, so the string "no" from a command line would mean yes."""
    with pytest.raises(TypeError, match=r"^\w+ must be True or False, got 'no'$"):
        make_it("no")
    make_it(np.bool_(True))


BAD_RESETS = [
    ({1: [0, 0], "gaol": [1, 1]}, "unknown reset option 'gaol'"),
    ({"goal": [1, 1, 1]}, "reset option 'goal' must have shape (2,), got (3,)"),
    ({"goal": [0.5, 1]}, "reset option 'goal' must contain values that int8 can represent"),
    ({"goal": [np.inf, 0]}, "reset option 'goal' must contain values that int8 can represent"),
    ({"goal": [7, 1]}, "reset option 'goal' must contain only 0 and 1"),
    ({"state": [-1, 1]}, "reset option 'state' must contain only 0 and 1"),
    ({"goal": ["a", "b"]}, "reset option 'goal' must contain numbers"),
    ({"goal": [[1], [1, 0]]}, "reset option 'goal' cannot be converted to an array of shape (2,)"),
    ({"state": {"bits": [1]}}, "entry 'bits' of reset option 'state' must have shape (2,), got (1,)"),
    ({"state": {"bit": [1, 1]}}, "unknown entry 'bit' of reset option 'state'"),
]


@pytest.mark.parametrize(("options", "message"), BAD_RESETS)
def test_bad_reset_options_raise_an_error(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        TaskEnv(BitFlipping(n_bits=2)).reset(options=options)


BAD_VECTOR_RESETS = [
    ({"goal": np.zeros((2, 2))}, "reset option 'goal' must have shape (2,) or (3, 2), got (2, 2)"),
    ({"goal": [2, 0]}, "with the reset options {'goal': [2, 0]}, 'desired_goal' must be in Box("),
    ({"reset_mask": np.ones(2, bool)}, "'reset_mask' must have dtype bool and shape (3,)"),
    ({"reset_mask": [1, 0, 1]}, "'reset_mask' must have dtype bool and shape (3,)"),
    ({"reset_mask": np.zeros(3, bool)}, "with at least one True"),
]


@pytest.mark.parametrize(("options", "message"), BAD_VECTOR_RESETS)
def test_episodes_continue_after_a_bad_reset(options, message):
    env = TaskVectorEnv(PointReach(), 3)
    env.reset(seed=0)
    observations, *_ = env.step(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=re.escape(message)):
        env.reset(options=options)
    assert data_equivalence(env.step(np.zeros((3, 2)))[0], observations, exact=True)


BAD_STARTS = [
    (PointMaze(), {"goal": [0.5, 1.5]}, "reset option 'goal' must lie in a free cell"),
    (PointMaze(), {"state": [1.5, 1.5]}, "reset option 'state' must lie in a free cell"),
    (PointMaze(), {"goal": [3.0, 0.5]}, "reset option 'goal' must lie in a free cell"),
    (
        PointPush(),
        {"goal": [0.1, 0.5]},
        "with the reset options {'goal': [0.1, 0.5]}, 'desired_goal' must be in Box(",
    ),
    (PointPush(), {"state": {"agent": [0.5, 0.5], "puck": [0.5, 0.5]}}, "at least 0.08 apart"),
]


@pytest.mark.parametrize("env", [TaskEnv, TaskVectorEnv])
@pytest.mark.parametrize(("task", "options", "message"), BAD_STARTS)
def test_invalid_start_raises_an_error(env, task, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        env(task).reset(options=options)


def test_state_with_several_entries_must_be_a_dict():
    with pytest.raises(
        TypeError, match=r"reset option 'state' must be a dict with keys from \['agent', 'puck'\]"
    ):
        TaskEnv(PointPush()).reset(options={"state": 3})


@pytest.mark.parametrize("env", [TaskEnv, TaskVectorEnv])
def test_reset_options_must_be_a_dict(env):
    with pytest.raises(TypeError, match="reset options must be a dict"):
        env(PointReach()).reset(options=[("goal", [0.5, 0.5])])


def test_options_with_only_solved_starts_raise_an_error():
    env = TaskEnv(BitFlipping(n_bits=2, goal="ones"))
    with pytest.raises(ValueError, match="the goal was already reached at the start in all 1000 attempts"):
        env.reset(options={"state": [1, 1]})


def test_first_reset_must_reset_all_environments():
    with pytest.raises(ValueError, match="must be True for all environments in the first reset"):
        TaskVectorEnv(PointReach(), 2).reset(options={"reset_mask": np.array([True, False])})


def test_list_of_seeds_raises_an_error():
    with pytest.raises(TypeError, match="seed must be one integer for all environments, or None"):
        TaskVectorEnv(PointReach(), 2).reset(seed=[1, 2])


BAD_ACTIONS = [
    (PointReach(), [0.0, 0.0, 0.0], "action must have shape (2,), got (3,)"),
    (PointReach(), [0.0, np.nan], "action must not contain NaN, got [ 0. nan]"),
    (PointReach(), ["a", "b"], "action must contain numbers, got dtype <U1"),
    (BitFlipping(n_bits=3), 3, "action must lie in 0..2, got 3"),
    (BitFlipping(n_bits=3), -1, "action must lie in 0..2, got -1"),
    (BitFlipping(n_bits=3), 1.0, "action must be an integer, got dtype float64"),
    (BitFlipping(n_bits=3), True, "action must be an integer, got dtype bool"),
    (BitFlipping(n_bits=3), [1], "action must have shape (), got (1,)"),
]


@pytest.mark.parametrize(("task", "action", "message"), BAD_ACTIONS)
def test_episode_continues_after_a_bad_action(task, action, message):
    env = TaskEnv(task)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=re.escape(message)):
        env.step(action)
    assert env._elapsed == 0
    after, *_ = env.step(env.action_space.sample())
    assert env.observation_space.contains(after)


BAD_VECTOR_ACTIONS = [
    (PointReach(), np.zeros((2, 2)), "actions must have shape (3, 2), got (2, 2)"),
    (BitFlipping(n_bits=4), [0, 4, 1], "action must lie in 0..3, got 4"),
]


@pytest.mark.parametrize(("task", "actions", "message"), BAD_VECTOR_ACTIONS)
def test_episodes_continue_after_bad_actions(task, actions, message):
    env = TaskVectorEnv(task, 3)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=re.escape(message)):
        env.step(actions)
    assert env._elapsed.tolist() == [0, 0, 0]
    env.step(env.action_space.sample())
