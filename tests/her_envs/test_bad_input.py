"""Bad input raises an error that names the argument, in the call that received it; episodes continue."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

from her_envs import BitFlipping, Counting, PointMaze, PointPush, PointReach, TaskEnv, TaskVectorEnv
from tests.support.bundled import BIT_FLIPPING

BAD_OPTIONS = [
    (lambda: BitFlipping(n_bits=0), ValueError, "n_bits"),
    (lambda: BitFlipping(n_bits=True), ValueError, "n_bits"),
    (lambda: BitFlipping(goal="zeros"), ValueError, "goal"),
    (lambda: BitFlipping(n_bits=63, observation="integer"), ValueError, "n_bits"),
    (lambda: BitFlipping(continuous="no"), TypeError, "continuous"),  # bool("no") is True
    (lambda: PointReach(step_size="fast"), ValueError, "step_size"),
    (lambda: PointMaze(step_size=np.inf), ValueError, "step_size"),
    (lambda: PointMaze(success_radius=0.6), ValueError, "success_radius"),
    (lambda: PointPush(step_size=0.06), ValueError, "step_size"),
    (lambda: TaskEnv(Counting), TypeError, "task"),
    (lambda: TaskEnv(Counting(), terminate_on_success="no"), TypeError, "terminate_on_success"),
    (lambda: TaskEnv(Counting(), reward_type="shaped"), ValueError, "reward_type"),
    (lambda: TaskEnv(Counting(), render_mode="ascii"), ValueError, "render_mode"),
    (lambda: gym.make_vec(BIT_FLIPPING, num_envs=0), ValueError, "num_envs"),
    (lambda: gym.make_vec(BIT_FLIPPING, autoreset_mode="sometimes"), ValueError, "autoreset_mode"),
    (lambda: gym.make_vec(BIT_FLIPPING, max_episode_steps=4), TypeError, "max_episode_steps"),
]


@pytest.mark.parametrize(("make_it", "error", "name"), BAD_OPTIONS)
def test_a_bad_option_raises_an_error_that_names_it(make_it, error, name):
    with pytest.raises(error, match=rf"\b{name}\b"):
        make_it()


def test_a_flag_can_be_a_bool_of_numpy():
    assert TaskEnv(Counting(), terminate_on_success=np.bool_(True)).terminate_on_success


@pytest.mark.parametrize("env", [TaskEnv, TaskVectorEnv])
def test_environment_whose_constructor_raised_can_be_closed(env):
    env.__new__(env).close()


APART = {"agent": [0.5, 0.5], "puck": [0.5, 0.5]}  # not far enough
BAD_RESETS = [
    (BitFlipping(n_bits=2), {1: [0, 0], "gaol": [1, 1]}, ValueError, "gaol"),
    (BitFlipping(n_bits=2), {"goal": [1, 1, 1]}, ValueError, "goal"),
    (BitFlipping(n_bits=2), {"goal": [np.inf, 0]}, ValueError, "goal"),
    (BitFlipping(n_bits=2), {"goal": ["a", "b"]}, ValueError, "goal"),
    (BitFlipping(n_bits=2), {"goal": [[1], [1, 0]]}, ValueError, "goal"),
    (BitFlipping(n_bits=2), {"state": [-1, 1]}, ValueError, "state"),
    (BitFlipping(n_bits=2), {"state": {"bit": [1, 1]}}, ValueError, "bit"),
    (PointMaze(), {"goal": [0.5, 1.5]}, ValueError, "goal"),  # in a wall
    (PointMaze(), {"goal": [3.0, 0.5]}, ValueError, "goal"),  # outside
    (PointPush(), {"goal": [0.1, 0.5]}, ValueError, "desired_goal"),
    (PointPush(), {"state": APART}, ValueError, "apart"),
    (PointPush(), {"state": 3}, TypeError, "state"),
    (PointReach(), [("goal", [0.5, 0.5])], TypeError, "options"),
]


@pytest.mark.parametrize("env", [TaskEnv, TaskVectorEnv])
@pytest.mark.parametrize(("task", "options", "error", "name"), BAD_RESETS)
def test_bad_reset_options_raise_an_error_that_names_them(env, task, options, error, name):
    with pytest.raises(error, match=rf"\b{name}\b"):
        env(task).reset(options=options)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"goal": np.zeros((2, 2))}, "goal"),
        ({"goal": [2, 0]}, "desired_goal"),
        ({"reset_mask": [1, 0, 1]}, "reset_mask"),
        ({"reset_mask": np.zeros(3, bool)}, "reset_mask"),
    ],
)
def test_episodes_continue_after_a_bad_reset(options, name):
    env = TaskVectorEnv(PointReach(), 3)
    env.reset(seed=0)
    observations, *_ = env.step(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=name):
        env.reset(options=options)
    assert data_equivalence(env.step(np.zeros((3, 2)))[0], observations, exact=True)


def test_options_with_only_solved_starts_raise_an_error():
    with pytest.raises(ValueError, match="goal"):
        TaskEnv(BitFlipping(n_bits=2, goal="ones")).reset(options={"state": [1, 1]})


def test_the_first_reset_must_reset_all_environments_and_has_one_seed():
    env = TaskVectorEnv(PointReach(), 2)
    with pytest.raises(ValueError, match="reset_mask"):
        env.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(TypeError, match="seed"):
        env.reset(seed=[1, 2])


BAD_ACTIONS = [
    (TaskEnv, PointReach(), [0.0, 0.0, 0.0]),
    (TaskEnv, PointReach(), [0.0, np.nan]),
    (TaskEnv, PointReach(), ["a", "b"]),
    (TaskEnv, BitFlipping(n_bits=3), 3),
    (TaskEnv, BitFlipping(n_bits=3), 1.0),
    (TaskEnv, BitFlipping(n_bits=3), [1]),
    (TaskVectorEnv, PointReach(), [[0.0, 0.0], [0.0, 0.0]]),
]


@pytest.mark.parametrize(("make_env", "task", "action"), BAD_ACTIONS)
def test_the_episode_continues_after_a_bad_action(make_env, task, action):
    env = make_env(task)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action"):
        env.step(action)
    assert np.max(env._elapsed) == 0
    after, *_ = env.step(env.action_space.sample())
    assert env.observation_space.contains(after)
