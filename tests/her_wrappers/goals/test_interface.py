"""GoalInterface finds goal functions in all wrappers, and rejects environments without goals."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from her_agents.algorithms.registry import choose_defaults
from her_agents.training.config import Config
from her_envs import BitFlipping, PointReach, TaskEnv
from her_wrappers import HindsightReplayBuffer, VectorEpisodeRecorder, check_goal_env
from her_wrappers.goals.interface import (
    GoalInterface,
    env_name,
    env_spec,
    goal_spaces,
    require_distinct,
    require_goal_space,
)
from her_wrappers.repairs import FlattenGoalObservation

NEAR, FAR = np.float32([[0, 0], [0.5, 0.5]]), np.float32([[0, 0], [1, 1]])
"""Two arrays of two points: the first points are equal, the second points are not."""


class DoubledReward(gym.Wrapper):
    """A wrapper that overrides ``compute_reward`` to scale rewards."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return 2 * self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, info)


class NoRewardFunction(gym.Env):
    """A goal environment without ``compute_reward``."""

    observation_space = PointReach().observation_space
    action_space = PointReach().action_space


class Native(SyncVectorEnv):
    """A vector environment with a method of its own."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return np.full(len(achieved_goal), 7)


def make_reach():
    return gym.make("her_envs/PointReach-v0")


def with_statistics(vector):
    return gym.wrappers.vector.RecordEpisodeStatistics(vector)


FOUND = {
    "through wrappers, which do not forward it": (
        lambda: gym.wrappers.RecordEpisodeStatistics(gym.wrappers.TimeLimit(make_reach(), 5)),
        [0, -1],
    ),
    "in the outermost wrapper": (lambda: gym.wrappers.TimeLimit(DoubledReward(make_reach()), 5), [0, -2]),
    "in the first environment": (
        lambda: with_statistics(SyncVectorEnv([lambda: DoubledReward(make_reach()), make_reach])),
        [0, -2],
    ),
    "in a vector environment": (lambda: with_statistics(Native([make_reach])), [7, 7]),
}


@pytest.mark.parametrize(("make", "rewards"), FOUND.values(), ids=FOUND)
def test_the_function_is_found(make, rewards):
    assert GoalInterface.of(make()).compute_reward(NEAR, FAR, [{}, {}]).tolist() == rewards


def test_functions_of_the_user_replace_those_of_the_environment():
    interface = GoalInterface.of(
        DoubledReward(make_reach()),
        compute_reward=lambda achieved, desired, info: np.arange(len(achieved)),
        compute_terminated=lambda achieved, desired, info: np.ones(len(achieved), bool),
    )
    assert interface.compute_reward(NEAR, FAR, [{}, {}]).tolist() == [0, 1]
    assert interface.compute_terminated(NEAR, FAR, [{}, {}]).tolist() == [True, True]


@pytest.mark.parametrize("with_spec", [True, False])
def test_the_functions_of_an_async_vector_environment_are_those_of_a_local_copy(with_spec):
    if with_spec:
        vector = gym.make_vec("her_envs/BitFlipping-v0", num_envs=2, vectorization_mode="async", n_bits=2)
    else:
        vector = AsyncVectorEnv([lambda: TaskEnv(BitFlipping(n_bits=2))] * 2)
        assert vector.spec is None
    # The variable keeps a reference, since Gymnasium 1.1 closes an unreferenced wrapper with its environment.
    wrapped = gym.wrappers.vector.RecordEpisodeStatistics(vector)
    interface = GoalInterface.of(wrapped)
    goals = np.int8([[0, 0], [0, 1]]), np.int8([[0, 0], [1, 1]])
    assert interface.compute_reward(*goals, [{}, {}]).tolist() == [0, -1]
    assert interface.compute_terminated(*goals, [{}, {}]).tolist() == [True, False]
    assert interface.observation_space == TaskEnv(BitFlipping(n_bits=2)).observation_space
    assert wrapped.reset()[0]["achieved_goal"].shape == (2, 2), "the workers must be alive"
    vector.close()


class Raising(TaskEnv):
    """An environment whose ``compute_reward`` raises."""

    def __init__(self):
        super().__init__(PointReach())

    def compute_reward(self, achieved_goal, desired_goal, info):
        raise ZeroDivisionError


class Stacked(gym.ObservationWrapper):
    """A wrapper that repeats some keys of the observations, as if it stacked equal frames."""

    def __init__(self, env, keys, count=2):
        super().__init__(env)
        self.keys, self.count = keys, count
        parts = {
            key: spaces.Box(-9, 9, (count * 2,), np.float32) if key in keys else part
            for key, part in env.observation_space.items()
        }
        self.observation_space = spaces.Dict(parts)

    def observation(self, observation):
        return {
            key: np.tile(value, self.count) if key in self.keys else value
            for key, value in observation.items()
        }


OBSERVATION_KEYS = ["achieved_goal", "desired_goal"]
STACKED = {
    "frames": lambda: gym.wrappers.FrameStackObservation(make_reach(), 2),
    "components": lambda: gym.wrappers.TimeLimit(Stacked(make_reach(), OBSERVATION_KEYS), 9),
    "sync": lambda: SyncVectorEnv([lambda: Stacked(make_reach(), OBSERVATION_KEYS)] * 2),
    "async": lambda: AsyncVectorEnv([lambda: Stacked(make_reach(), OBSERVATION_KEYS)] * 2),
}


@pytest.mark.parametrize("kind", STACKED)
def test_goals_of_another_size_than_the_function_takes_are_an_error(kind):
    env = STACKED[kind]()
    with pytest.raises(ValueError, match=r"the shape of goals to .*, but compute_reward takes \(2,\)"):
        HindsightReplayBuffer.for_env(env)
    functions = dict.fromkeys(
        ["compute_reward", "compute_terminated"], lambda *goals: np.zeros(len(goals[0]))
    )
    HindsightReplayBuffer.for_env(env, **functions)
    HindsightReplayBuffer.for_env(env, n_sampled_goal=0)
    env.close()


def test_stacked_observations_and_a_function_for_changed_goals_are_right():
    GoalInterface.of(Stacked(make_reach(), ["observation"]))
    GoalInterface.of(DoubledReward(Stacked(make_reach(), OBSERVATION_KEYS)))
    GoalInterface.of(FlattenGoalObservation(make_reach()))


@pytest.mark.parametrize("use", [VectorEpisodeRecorder, HindsightReplayBuffer.for_env, require_distinct])
def test_one_object_in_several_slots_is_an_error(use):
    env = make_reach()
    for makers in (
        [make_reach, lambda: env, lambda: env],
        [lambda: env, lambda: gym.wrappers.TimeLimit(env, 9)],
    ):
        with pytest.raises(ValueError, match=r"the environments .* and .* are the same TaskEnv object"):
            use(with_statistics(SyncVectorEnv(makers)))


GOALS = spaces.Box(-1, 1, (3,))


def test_a_function_that_raises_or_is_missing_does_not_end_the_workers_of_an_async_environment():
    vector = AsyncVectorEnv([Raising] * 2)
    with pytest.raises(ZeroDivisionError):
        GoalInterface.of(vector).compute_reward(NEAR, FAR, [{}, {}])
    vector.reset()
    vector.close()
    vector = AsyncVectorEnv([NoRewardFunction])
    with pytest.raises(ValueError, match="has no compute_reward"):
        GoalInterface.of(vector)
    assert goal_spaces(vector)[0] == NoRewardFunction.observation_space
    vector.close()


def goal_space(**changes):
    parts = {"observation": GOALS, "achieved_goal": GOALS, "desired_goal": GOALS} | changes
    return spaces.Dict({key: space for key, space in parts.items() if space is not None})


class WrongShape(TaskEnv):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return super().compute_terminated(achieved_goal, desired_goal, info)[..., None]


BAD = [
    (lambda: GoalInterface.of("FetchReach-v4"), TypeError, "env must be .*Env or .*VectorEnv, got str"),
    (lambda: GoalInterface.of(gym.make("CartPole-v1")), ValueError, "observation space must be a Dict"),
    (lambda: require_goal_space(goal_space(achieved_goal=None)), ValueError, "have the key 'achieved_goal'"),
    (
        lambda: require_goal_space(goal_space(desired_goal=spaces.Box(-1, 1, (2,)))),
        ValueError,
        "must have the same shape and dtype",
    ),
    (lambda: GoalInterface.of(NoRewardFunction()), ValueError, "NoRewardFunction has no compute_reward"),
    (lambda: GoalInterface.of(make_reach(), compute_terminated="success"), TypeError, "compute_terminated"),
    (lambda: GoalInterface.of(WrongShape(PointReach())), ValueError, r"\(2,\), .* 2 goals, got shape \(2"),
]


@pytest.mark.parametrize(("make_it", "error", "message"), BAD)
def test_an_environment_without_a_goal_interface_raises_an_error(make_it, error, message):
    with pytest.raises(error, match=message):
        make_it()


class ForeignSpec:
    """A spec without an id, like that of EnvPool."""


def test_spec_of_another_library_is_not_used():
    env = gym.make("her_envs/PointReach-v0")
    assert env_spec(env).id == env_name(env) == "her_envs/PointReach-v0"
    env.unwrapped.spec = ForeignSpec()
    assert env_spec(env.unwrapped) is None
    assert env_name(env.unwrapped) == "TaskEnv"
    assert check_goal_env(env.unwrapped, max_steps=20).target == "TaskEnv"
    assert choose_defaults(Config("unused"), env.unwrapped).steps == 200_000
