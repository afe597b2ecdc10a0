"""Each finding of `test_verdicts.py` reproduced by a few lines that do not use her_wrappers."""

import inspect
import warnings

import numpy as np
import pytest

from tests.real_envs.environments import FLIPS, MAKERS

pytestmark = [pytest.mark.real_envs, pytest.mark.filterwarnings("ignore")]

FETCH_AND_HAND = ["FetchReach-v4", "HandReach-v3"]  # one of the environments that share a function
MAZES = ["PointMaze_UMaze-v3", "AntMaze_UMaze-v5"]
PANDA = ["PandaReach-v3", "PandaPush-v3"]


def make(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = MAKERS[name]()
    env.action_space.seed(0)
    return env


@pytest.fixture(scope="module")
def started():
    """Return a function that resets an environment, which tests share, and returns it with the results."""
    envs = {}

    def start(name):
        envs[name] = envs.get(name) or make(name)
        return envs[name], *envs[name].reset(seed=0)

    yield start
    for env in envs.values():
        env.close()


def random_step(env):
    return env.step(env.action_space.sample())


def get_function(env, name):
    return env.get_wrapper_attr(name)


def parameters(env):
    return list(inspect.signature(get_function(env, "compute_reward")).parameters)


@pytest.mark.parametrize("name", FETCH_AND_HAND)
def test_ge117_ge203_a_parameter_is_named_goal_and_the_flag_is_a_float_and_absent_at_reset(name, started):
    env, _, info = started(name)
    assert parameters(env) == ["achieved_goal", "goal", "info"]
    assert "is_success" not in info
    assert isinstance(random_step(env)[-1]["is_success"], np.float32)


@pytest.mark.parametrize("name", MAZES)
def test_ge203_the_flag_is_named_success(name, started):
    env, _, info = started(name)
    assert "success" in info
    assert "is_success" not in info.keys() | random_step(env)[-1].keys()


@pytest.mark.parametrize("name", FLIPS)
def test_ge117_ge203_bit_flipping_has_no_flag_at_reset_and_another_name_of_a_parameter(name, started):
    env, _, info = started(name)
    assert "_info" in parameters(env)
    assert "is_success" not in info
    assert "is_success" in random_step(env)[-1]


@pytest.mark.parametrize("name", [*FETCH_AND_HAND, *MAZES])
def test_ge206_compute_terminated_returns_one_value_for_a_batch(name, started):
    env, observation, _ = started(name)
    goals = np.stack([observation["achieved_goal"]] * 3)
    assert np.shape(get_function(env, "compute_terminated")(goals, goals, {})) == ()


def test_ge206_this_value_is_wrong_where_success_terminates_point_maze(started):
    env, observation, _ = started("PointMaze_UMaze-v3, continuing_task=False")
    terminated = get_function(env, "compute_terminated")
    goal = observation["achieved_goal"]
    assert terminated(goal, goal, {})
    assert not terminated(np.stack([goal, goal]), np.stack([goal, goal + 3]), {})


def test_ge104_pen_rewards_raise_for_two_goals_and_are_wrong_for_more(started):
    """A line of _goal_distance indexes rows instead of Euler angles."""
    env, observation, _ = started("HandManipulatePen-v1")
    reward = get_function(env, "compute_reward")
    goal = observation["achieved_goal"]
    assert reward(goal, goal, {}) == 0
    with pytest.raises(IndexError, match="index 2 is out of bounds for axis 0 with size 2"):
        reward(np.stack([goal] * 2), np.stack([goal] * 2), {})
    turned = observation["desired_goal"].copy()
    turned[:3] = goal[:3]
    single = reward(goal, turned, {})
    assert single == -1
    batch = reward(np.stack([goal] * 3), np.stack([turned] * 3), {})
    assert batch[2] == 0 != single, "row 2 was overwritten with the desired goal's"


def test_ge116_compute_reward_returns_none_for_an_unknown_reward_type():
    env = make("PointMaze_UMaze-v3")
    goal = env.reset(seed=0)[0]["achieved_goal"]
    env.unwrapped.reward_type = "densee"
    assert get_function(env, "compute_reward")(goal, goal, {}) is None


def test_ge303_point_maze_changes_its_goal_within_an_episode(started):
    env, observation, _ = started("PointMaze_Open-v3, reset_target=True")
    env.unwrapped.goal = observation["achieved_goal"].copy()
    first, _, terminated, truncated, _ = env.step(np.zeros(2))
    second, *_ = env.step(np.zeros(2))
    assert (terminated, truncated) == (False, False)
    assert not np.array_equal(first["desired_goal"], second["desired_goal"])


def test_kitchen_has_no_flag_no_batches_no_termination_and_shares_the_goal(started):
    env, observation, info = started("FrankaKitchen-v1")
    achieved, desired = observation["achieved_goal"], observation["desired_goal"]
    # GE201
    assert not {"is_success", "success"} & (info.keys() | random_step(env)[-1].keys())
    # GE105
    goals = [{key: np.stack([value] * 3) for key, value in goal.items()} for goal in (achieved, desired)]
    assert np.shape(get_function(env, "compute_reward")(*goals, {})) == ()
    # GE205
    with pytest.raises(NotImplementedError):
        get_function(env, "compute_terminated")(achieved, desired, {})
    # GE302
    assert all(np.shares_memory(desired[task], env.unwrapped.goal[task]) for task in desired)


@pytest.mark.parametrize("name", PANDA)
def test_ge401_panda_draws_unseeded_goals_at_each_reset_without_a_seed(name, started):
    goals = [started(name)[0].reset()[0]["desired_goal"] for _ in range(2)]
    assert not np.array_equal(*goals)


@pytest.mark.parametrize("name", PANDA)
def test_ge204_success_terminates_panda_which_has_no_compute_terminated(name, started):
    env, observation, _ = started(name)
    env.unwrapped.task.goal = observation["achieved_goal"].copy()
    *_, terminated, _, info = env.step(np.zeros(env.action_space.shape, np.float32))
    assert info["is_success"]
    assert terminated
    assert not env.has_wrapper_attr("compute_terminated")


def test_ge005_panda_objects_turn_faster_than_their_space_allows(started):
    env, observation, _ = started("PandaPush-v3")
    space = env.observation_space["observation"]
    for t in range(3000):
        if not space.contains(observation["observation"]):
            break
        observation, _, terminated, truncated, _ = random_step(env)
        if terminated or truncated:
            observation, _ = env.reset(seed=t)
    assert np.abs(observation["observation"]).max() > 10


def test_parking_replaces_spaces_shares_the_action_and_subtracts_five_for_a_crash_outside_compute_reward():
    env = make("parking-v0")
    before = env.observation_space, env.action_space
    env.reset(seed=0)
    # GE007
    assert env.observation_space is not before[0]
    assert env.action_space is not before[1]
    # GE302, GE203
    action = env.action_space.sample()
    info = env.step(action)[-1]
    assert np.shares_memory(info["action"], action)
    assert isinstance(info["is_success"], np.bool_)
    # GE101
    while not info["crashed"]:
        observation, reward, terminated, truncated, info = random_step(env)
        if (terminated or truncated) and not info["crashed"]:
            env.reset()
    goals = observation["achieved_goal"], observation["desired_goal"]
    assert reward - get_function(env, "compute_reward")(*goals, info) == pytest.approx(-5)


@pytest.mark.parametrize("name", [name for name in FLIPS if "discrete" not in name])
def test_ge108_bit_flipping_returns_a_row_for_one_goal_and_raises_for_none(name, started):
    env, observation, _ = started(name)
    goal = observation["achieved_goal"]
    assert env.compute_reward(goal, goal, {}).shape == (1,)
    with pytest.raises(ValueError, match="cannot reshape array of size 0"):
        env.compute_reward(goal[None][:0], goal[None][:0], {})


def test_ge105_bit_flipping_with_integers_returns_one_reward_for_a_batch(started):
    env, _, _ = started("BitFlippingEnv, discrete_obs_space=True")
    goals = np.array([3, 5])
    assert env.compute_reward(goals, goals, {}).shape == (1,)


@pytest.mark.parametrize("name", FLIPS)
def test_ge204_success_terminates_bit_flipping_which_has_no_compute_terminated(name, started):
    env, _, _ = started(name)
    env.state = env.desired_goal.copy()
    env.state[0] = 1 - env.state[0]
    *_, terminated, _, info = env.step(np.eye(len(env.state))[0] * 2 - 1 if env.continuous else 0)
    assert info["is_success"]
    assert terminated
    assert not hasattr(env, "compute_terminated")
