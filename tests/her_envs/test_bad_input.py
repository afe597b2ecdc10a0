"""Bad input raises an error with one clear sentence in the call that received it; episodes continue."""

from __future__ import annotations

import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

from her_envs import BitFlipping, Counting, PointMaze, PointPush, PointReach, TaskEnv, TaskVectorEnv
from tests.support.bundled import BIT_FLIPPING

BAD_OPTIONS = [
    (lambda: BitFlipping(n_bits=0), "n_bits must be a whole number >= 1, got 0"),
    (lambda: BitFlipping(n_bits=2.5), "n_bits must be a whole number >= 1, got 2.5"),
    (lambda: BitFlipping(n_bits=True), "n_bits must be a whole number >= 1, got True"),
    (lambda: BitFlipping(goal="zeros"), "unknown goal 'zeros'; choose from 'random', 'ones'"),
    (
        lambda: BitFlipping(observation="pixels"),
        "unknown observation 'pixels'; choose from 'bits', 'integer', 'image'",
    ),
    (
        lambda: BitFlipping(n_bits=63, observation="integer"),
        'observation="integer" supports at most 62 bits, got n_bits=63; use observation="bits"',
    ),
    (lambda: PointReach(success_radius=0), "success_radius must lie in (0, 0.5], got 0"),
    (lambda: PointReach(step_size=-1), "step_size must lie in (0, 1], got -1"),
    (lambda: PointMaze(step_size=0), "step_size must lie in (0, inf), got 0"),
    (lambda: PointMaze(step_size=np.inf), "step_size must lie in (0, inf), got inf"),
    (lambda: PointMaze(success_radius=0.6), "success_radius must lie in (0, 0.5], got 0.6"),
    (lambda: PointPush(step_size=0.06), "step_size must lie in (0, 0.05], got 0.06"),
    (lambda: PointReach(step_size="fast"), "step_size must lie in (0, 1], got 'fast'"),
    (lambda: PointReach(success_radius=True), "success_radius must lie in (0, 0.5], got True"),
    (lambda: PointPush(success_radius=-1), "success_radius must lie in (0, 0.35], got -1"),
    (lambda: Counting(length=0), "length must be a whole number >= 1, got 0"),
    (lambda: TaskEnv(Counting(), max_steps=0), "max_steps must be a whole number >= 1, got 0"),
    (
        lambda: TaskEnv(Counting(), reward_type="shaped"),
        "unknown reward_type 'shaped'; choose from 'sparse', 'dense'",
    ),
    (
        lambda: TaskEnv(Counting(), render_mode="ascii"),
        "unknown render_mode 'ascii'; choose from 'human', 'rgb_array'",
    ),
    (lambda: TaskEnv(Counting(), render_size=0), "render_size must be a whole number >= 1, got 0"),
]


@pytest.mark.parametrize(("make_it", "message"), BAD_OPTIONS)
def test_bad_option_raises_an_error(make_it, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_it()


BAD_VECTOR_OPTIONS = [
    ({"num_envs": 0}, "num_envs must be a whole number >= 1, got 0"),
    ({"num_envs": 2.0}, "num_envs must be a whole number >= 1, got 2.0"),
    (
        {"autoreset_mode": "sometimes"},
        "unknown autoreset_mode 'sometimes'; choose from 'NextStep', 'SameStep', 'Disabled'",
    ),
    ({"reward_type": "shaped"}, "unknown reward_type 'shaped'; choose from 'sparse', 'dense'"),
    ({"max_steps": 0}, "max_steps must be a whole number >= 1, got 0"),
    (
        {"max_steps": 3, "max_episode_steps": 4},
        "expected max_steps or max_episode_steps, two names of the same limit, got both: 3 and 4; pass one",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD_VECTOR_OPTIONS)
def test_bad_option_of_a_vector_environment_raises_an_error(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        gym.make_vec(BIT_FLIPPING, **options)


NO_TASKS = [
    (BitFlipping, "task must be a GoalTask, got the class BitFlipping; pass an instance: BitFlipping()"),
    (10, "task must be a GoalTask, got 10"),
]


@pytest.mark.parametrize("env", [TaskEnv, TaskVectorEnv])
def test_environment_whose_constructor_raised_can_be_closed(env):
    env.__new__(env).close()


@pytest.mark.parametrize("env", [TaskEnv, TaskVectorEnv])
@pytest.mark.parametrize(("task", "message"), NO_TASKS)
def test_task_of_another_type_raises_an_error(env, task, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        env(task)


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
    ({"gaol": [1, 1]}, "unknown reset option 'gaol'; choose from 'goal', 'state'"),
    ({"goal": [1, 1, 1]}, "reset option 'goal' must have shape (2,), got (3,)"),
    ({"goal": [0.5, 1]}, "reset option 'goal' must contain int8 numbers, got [0.5, 1]"),
    ({"goal": [7, 1]}, "reset option 'goal' must contain only 0 and 1, got [[7, 1]]"),
    ({"goal": ["a", "b"]}, "reset option 'goal' must contain numbers, got ['a', 'b']"),
    ({"goal": [np.inf, 0]}, f"reset option 'goal' must contain int8 numbers, got {[np.inf, 0]}"),
    ({"state": [1, 1, 1]}, "reset option 'state' must have shape (2,), got (3,)"),
    ({"state": {"bits": [1]}}, "entry 'bits' of reset option 'state' must have shape (2,), got (1,)"),
    ({1: [0, 0], "gaol": [1, 1]}, "unknown reset option 'gaol'; choose from 'goal', 'state'"),
    ({"state": {"bit": [1, 1]}}, "unknown entry 'bit' of reset option 'state'; choose from ['bits']"),
]


@pytest.mark.parametrize(("options", "message"), BAD_RESETS)
def test_bad_reset_options_raise_an_error(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        TaskEnv(BitFlipping(n_bits=2)).reset(options=options)


BAD_VECTOR_RESETS = [
    ({"goal": np.zeros((2, 2))}, "reset option 'goal' must have shape (2,) or (3, 2), got (2, 2)"),
    ({"goal": [2, 0]}, "reset options must give observations in the observation space, got {'goal': [2, 0]}"),
    ({"gaol": [0, 0]}, "unknown reset option 'gaol'; choose from 'goal', 'state'"),
    (
        {"reset_mask": np.ones(2, bool)},
        "reset option 'reset_mask' must be bool of shape (3,) with at least one True, "
        "got bool of shape (2,): [ True  True]",
    ),
    (
        {"reset_mask": [1, 0, 1]},
        "reset option 'reset_mask' must be bool of shape (3,) with at least one True, "
        "got int64 of shape (3,): [1 0 1]",
    ),
    (
        {"reset_mask": np.zeros(3, bool)},
        "reset option 'reset_mask' must be bool of shape (3,) with at least one True, "
        "got bool of shape (3,): [False False False]",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD_VECTOR_RESETS)
def test_episodes_continue_after_a_bad_reset(options, message):
    env = TaskVectorEnv(PointReach(), 3)
    env.reset(seed=0)
    observations, *_ = env.step(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        env.reset(options=options)
    assert data_equivalence(env.step(np.zeros((3, 2)))[0], observations, exact=True)


BAD_STARTS = [
    (PointMaze(), {"goal": [0.5, 1.5]}, "reset option 'goal' must lie in a free cell, got [0.5 1.5]"),
    (PointMaze(), {"state": [1.5, 1.5]}, "reset option 'state' must lie in a free cell, got [1.5 1.5]"),
    (PointMaze(), {"goal": [3.0, 0.5]}, "reset option 'goal' must lie in a free cell, got [3.  0.5]"),
    (PointMaze(), {"goal": [3.5, 0.5]}, "reset option 'goal' must lie in a free cell, got [3.5 0.5]"),
    (
        PointPush(),
        {"goal": [0.1, 0.5]},
        "reset options must give observations in the observation space, got {'goal': [0.1, 0.5]}",
    ),
    (
        PointPush(),
        {"state": {"agent": [0.5, 0.5], "puck": [0.5, 0.5]}},
        "reset option 'state' must have agent and puck at least 0.08 apart, got [0.5 0.5] and [0.5 0.5]",
    ),
]


@pytest.mark.parametrize(("task", "options", "message"), BAD_STARTS)
def test_invalid_start_raises_an_error(task, options, message):
    for env in (TaskEnv(task), TaskVectorEnv(task, 3)):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            env.reset(options=options)


def test_state_with_several_entries_must_be_a_dict():
    with pytest.raises(
        TypeError, match=r"^reset option 'state' must be a dict of \['agent', 'puck'\], got 3$"
    ):
        TaskEnv(PointPush()).reset(options={"state": 3})


@pytest.mark.parametrize("options", [["goal"], [("goal", [0.5, 0.5])], "goal", 3])
@pytest.mark.parametrize("env", [TaskEnv, TaskVectorEnv])
def test_reset_options_must_be_a_dict(env, options):
    with pytest.raises(TypeError, match=re.escape(f"reset options must be a dict, got {options!r}")):
        env(PointReach()).reset(options=options)


def test_ragged_goal_raises_an_error():
    with pytest.raises(ValueError, match="reset option 'goal' must be an array of shape"):
        TaskEnv(BitFlipping(n_bits=2)).reset(options={"goal": [[1], [1, 0]]})


@pytest.mark.parametrize("form", ["integer", "image"])
@pytest.mark.parametrize("bits", [[2, 0], [-1, 1], [7, 1]])
def test_bits_must_be_0_or_1_for_every_encoding(form, bits):
    env = TaskEnv(BitFlipping(n_bits=2, observation=form))
    for name in ("goal", "state"):
        with pytest.raises(ValueError, match=f"reset option '{name}' must contain only 0 and 1, got"):
            env.reset(options={name: bits})


def test_options_with_only_solved_starts_raise_an_error():
    env = TaskEnv(BitFlipping(n_bits=2, goal="ones"))
    with pytest.raises(
        ValueError, match="reset needs a start that is not solved, got 1000 solved samples; pass another"
    ):
        env.reset(options={"state": [1, 1]})


def test_first_reset_must_reset_all_environments():
    with pytest.raises(ValueError, match="must be True for all environments in the first reset"):
        TaskVectorEnv(PointReach(), 2).reset(options={"reset_mask": np.array([True, False])})


def test_list_of_seeds_raises_an_error():
    with pytest.raises(TypeError, match="all environments use one generator"):
        TaskVectorEnv(PointReach(), 2).reset(seed=[1, 2])


BAD_ACTIONS = [
    (PointReach(), [0.0, 0.0, 0.0], "action must have shape (2,), got (3,)"),
    (PointReach(), 0.5, "action must have shape (2,), got ()"),
    (PointReach(), [0.0, np.nan], "action must not contain NaN, got [ 0. nan]"),
    (PointReach(), ["a", "b"], "action must contain numbers, got dtype <U1"),
    (BitFlipping(n_bits=3), 3, "action must lie in 0..2, got 3"),
    (BitFlipping(n_bits=3), -1, "action must lie in 0..2, got -1"),
    (BitFlipping(n_bits=3), 1.0, "action must be a whole number, got dtype float64; cast it with int()"),
    (BitFlipping(n_bits=3), np.nan, "action must be a whole number, got dtype float64; cast it with int()"),
    (BitFlipping(n_bits=3), True, "action must be a whole number, got dtype bool; cast it with int()"),
    (BitFlipping(n_bits=3), [1], "action must have shape (), got (1,)"),
    (BitFlipping(n_bits=2, continuous=True), [np.nan, 0.0], "action must not contain NaN, got [nan  0.]"),
]


@pytest.mark.parametrize(("task", "action", "message"), BAD_ACTIONS)
def test_episode_continues_after_a_bad_action(task, action, message):
    env = TaskEnv(task)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        env.step(action)
    assert env._elapsed == 0
    after, *_ = env.step(env.action_space.sample())
    assert env.observation_space.contains(after)


BAD_VECTOR_ACTIONS = [
    (PointReach(), np.zeros((2, 2)), "actions must have shape (3, 2), got (2, 2)"),
    (PointReach(), np.zeros(2), "actions must have shape (3, 2), got (2,)"),
    (PointReach(), [[0, 0], [0, np.nan], [0, 0]], "action must not contain NaN, got [ 0. nan]"),
    (BitFlipping(n_bits=4), [0, 1], "actions must have shape (3,), got (2,)"),
    (BitFlipping(n_bits=4), [0, 4, 1], "action must lie in 0..3, got 4"),
    (
        BitFlipping(n_bits=4),
        [0.0, 1.0, 2.0],
        "action must be a whole number, got dtype float64; cast it with int()",
    ),
]


@pytest.mark.parametrize(("task", "actions", "message"), BAD_VECTOR_ACTIONS)
def test_episodes_continue_after_bad_actions(task, actions, message):
    env = TaskVectorEnv(task, 3)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        env.step(actions)
    assert env._elapsed.tolist() == [0, 0, 0]
    env.step(env.action_space.sample())
