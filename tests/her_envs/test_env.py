"""TaskEnv: every bundled environment fulfills the contracts of Gymnasium and of goal environments."""

import copy
import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.env_checker import check_env as sb3_check_env

from her_envs import BitFlipping, PointReach, TaskEnv, TaskVectorEnv
from her_envs.registration import ENTRY_POINTS
from tests.support.bundled import VARIANTS, ids, make


@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
def test_gymnasium_checks_every_environment_without_a_warning(env_id, options):
    env = make(env_id, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("render_mode", ["rgb_array", "human"])
@pytest.mark.parametrize("env_id", ENTRY_POINTS)
def test_gymnasium_checks_the_pictures_of_every_environment(env_id, render_mode, monkeypatch):
    monkeypatch.setitem(TaskEnv.metadata, "render_fps", 1000)
    env = make(env_id, render_mode=render_mode, render_size=64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)
    env.close()


@pytest.mark.parametrize("env_id", ENTRY_POINTS)
@pytest.mark.filterwarnings("ignore")  # SB3 warns about scaling and image sizes, not about correctness
def test_stable_baselines3_checks_every_environment(env_id):
    sb3_check_env(make(env_id))


@pytest.mark.parametrize("make_env", [TaskEnv, TaskVectorEnv])
def test_copies_and_pickles_continue_identically(make_env):
    env = make_env(PointReach(), max_steps=2)
    env.reset(seed=0)
    action = np.zeros(env.action_space.shape)
    twins = copy.deepcopy(env), pickle.loads(pickle.dumps(env))
    for _ in range(2 if make_env is TaskEnv else 4):
        expected = env.step(action)
        assert all(data_equivalence(twin.step(action), expected, exact=True) for twin in twins)


def test_a_time_limit_truncates_and_a_success_terminates():
    env = TaskEnv(BitFlipping(n_bits=4))
    env.reset(seed=0, options={"goal": [1, 1, 1, 1], "state": [0, 0, 0, 0]})
    assert [env.step(bit)[2:4] for bit in (0, 0, 0, 0)] == [(False, False)] * 3 + [(False, True)]
    env.reset(options={"goal": [1, 1, 1, 1], "state": [0, 0, 0, 0]})
    assert [env.step(bit)[2:4] for bit in (0, 1, 2, 3)] == [(False, False)] * 3 + [(True, False)]


def test_max_steps_and_terminate_on_success_override_the_task():
    env = TaskEnv(BitFlipping(n_bits=4), max_steps=2, terminate_on_success=False)
    env.reset(options={"goal": [0, 0, 0, 0], "state": [0, 0, 0, 1]})
    observation, reward, terminated, truncated, info = env.step(3)
    assert (reward, terminated, truncated, info) == (0.0, False, False, {"is_success": True})
    assert not env.compute_terminated(observation["achieved_goal"], observation["desired_goal"], {})
    assert env.step(3)[3]


def test_specs_have_no_time_limit():
    """A time limit in the spec would give episodes of gym.make and gym.make_vec different lengths."""
    assert all(gym.spec(env_id).max_episode_steps is None for env_id in ENTRY_POINTS)


@pytest.mark.parametrize("env_id", ENTRY_POINTS)
def test_specs_can_be_saved_as_json(env_id):
    spec = gym.make(env_id, max_steps=3).spec
    again = gym.make(gym.envs.registration.EnvSpec.from_json(spec.to_json()))
    assert again.unwrapped.max_steps == 3
    spec = gym.make_vec(env_id, num_envs=2, max_steps=3, autoreset_mode="SameStep").spec
    again = gym.make_vec(gym.envs.registration.EnvSpec.from_json(spec.to_json()))
    assert (again.num_envs, again.unwrapped.max_steps) == (2, 3)
    assert again.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP


def test_ids_work_with_a_module_prefix_and_registering_twice_changes_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gym.make("her_envs:her_envs/PointReach-v0")
        gym.register_envs(__import__("her_envs"))
        __import__("her_envs").register_envs()


def test_given_goal_or_state_is_used_and_the_other_is_sampled():
    env = TaskEnv(BitFlipping(n_bits=2, goal="random"))
    for seed in range(20):
        observation, _ = env.reset(seed=seed, options={"goal": [1, 0]})
        assert observation["desired_goal"].tolist() == [1, 0] != observation["achieved_goal"].tolist()
        observation, _ = env.reset(seed=seed, options={"state": [1, 0]})
        assert observation["achieved_goal"].tolist() == [1, 0] != observation["desired_goal"].tolist()


def test_given_start_is_used_even_if_it_is_solved():
    env = TaskEnv(PointReach())
    observation, info = env.reset(options={"goal": [0.5, 0.5], "state": {"position": (0.5, 0.5)}})
    assert info == {"is_success": True}
    np.testing.assert_array_equal(observation["observation"], np.float32([0.5, 0.5]))


def test_options_and_the_state_are_copied():
    env, goal = TaskEnv(PointReach()), np.float32([0.2, 0.2])
    env.reset(options={"goal": goal})
    goal[:] = 0.9
    env.state["goal"][:] = 0.9
    assert env.step(np.zeros(2))[0]["desired_goal"].tolist() == np.float32([0.2, 0.2]).tolist()


def test_continuous_actions_are_clipped():
    env = TaskEnv(PointReach(step_size=0.1))
    env.reset(options={"goal": [1, 1], "state": [0.5, 0.5]})
    np.testing.assert_allclose(env.step([np.inf, -7])[0]["observation"], [0.6, 0.4], atol=1e-7)


@pytest.mark.parametrize("make_env", [TaskEnv, TaskVectorEnv])
def test_step_render_and_state_need_a_reset(make_env):
    env = make_env(BitFlipping(n_bits=1), render_mode="rgb_array")
    for use in (lambda: env.step(env.action_space.sample()), env.render, lambda: env.state):
        with pytest.raises(ResetNeeded, match="before the first episode; call reset"):
            use()


def test_step_after_the_end_of_an_episode_needs_a_reset():
    env = TaskEnv(BitFlipping(n_bits=1))
    env.reset(seed=0)
    env.step(0)
    with pytest.raises(ResetNeeded, match="after the end of an episode; call reset"):
        env.step(0)


@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
def test_state_starts_an_episode_and_its_reached_goal_is_achieved_there(env_id, options):
    env = make(env_id, **options)
    env.action_space.seed(3)
    env.reset(seed=3)
    observation, *_ = env.step(env.action_space.sample())
    state = env.state
    row = {name: values[0] for name, values in state.items()}
    again, _ = env.reset(options={"goal": row.pop("goal"), "state": row})
    assert data_equivalence(again, observation, exact=True)

    reached, info = env.reset(options={"goal": env.task.reached_goal(state)[0], "state": row})
    np.testing.assert_array_equal(reached["achieved_goal"], observation["achieved_goal"])
    np.testing.assert_array_equal(reached["desired_goal"], observation["achieved_goal"])
    assert info["is_success"]
