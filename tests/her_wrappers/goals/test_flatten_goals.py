"""FlattenGoalObservation: environments whose spaces are not vectors or images."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from her_envs import BitFlipping, TaskEnv
from her_wrappers import GoalInterface, check_goal_env
from her_wrappers.goals.repairs import FlattenGoalObservation, _unflatten

NESTED = spaces.Dict({
    "place": spaces.Box(-1, 1, (2, 3)),
    "color": spaces.Discrete(3, start=5),
    "more": spaces.Tuple([spaces.MultiDiscrete([2, 4]), spaces.MultiBinary((2, 2))]),
})


class Nested(gym.Env):
    """An environment whose observation is a nested Dict, and whose goals are flat Dicts."""

    def __init__(self):
        bits = spaces.MultiBinary(3)
        goal = spaces.Dict({"first": spaces.Discrete(2), "others": spaces.MultiBinary(2)})
        self.observation_space = spaces.Dict(
            observation=spaces.Dict({"a": spaces.Dict({"bits": bits}), "steps": spaces.Discrete(7)}),
            achieved_goal=goal,
            desired_goal=goal,
        )
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.bits, self.goal = np.zeros(3, np.int8), self.np_random.integers(2, size=3, dtype=np.int8)
        self.goal[0] = 1
        self.steps = 0
        return self.observe(), {"is_success": False}

    def step(self, action):
        self.bits[action] ^= 1
        self.steps += 1
        observation = self.observe()
        reward = float(self.compute_reward(observation["achieved_goal"], observation["desired_goal"], {}))
        return observation, reward, reward == 0, self.steps == 6, {"is_success": reward == 0}

    def observe(self):
        bits = {"a": {"bits": self.bits.copy()}, "steps": np.int64(self.steps)}
        return {"observation": bits, "achieved_goal": as_goal(self.bits), "desired_goal": as_goal(self.goal)}

    def compute_reward(self, achieved_goal, desired_goal, info):
        same = np.asarray(achieved_goal["first"]) == desired_goal["first"]
        return np.float32(same & (achieved_goal["others"] == desired_goal["others"]).all(-1)) - 1

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.compute_reward(achieved_goal, desired_goal, info) == 0


def as_goal(bits):
    return {"first": np.int64(bits[0]), "others": bits[1:].copy()}


def make_integers(**options):
    return FlattenGoalObservation(TaskEnv(BitFlipping(n_bits=3, observation="integer"), **options))


def test_unflattening_inverts_flattening_for_any_leading_axes():
    NESTED.seed(0)
    samples = [NESTED.sample() for _ in range(6)]
    rows = np.stack([spaces.flatten(NESTED, sample) for sample in samples])
    trees = _unflatten(NESTED, rows.reshape(2, 3, -1))
    for i, sample in enumerate(samples):
        at = divmod(i, 3)
        np.testing.assert_array_equal(trees["place"][at], sample["place"])
        assert trees["color"][at] == sample["color"]
        np.testing.assert_array_equal(trees["more"][0][at], sample["more"][0])
        np.testing.assert_array_equal(trees["more"][1][at], sample["more"][1])


@pytest.mark.parametrize("factory", [make_integers, lambda: FlattenGoalObservation(Nested())])
def test_the_wrapped_environment_passes_the_check(factory):
    report = check_goal_env(factory, max_steps=100)
    assert not report.of_severity("error"), report.text()


def test_rewards_and_terminations_of_flat_goals_are_those_of_the_environment():
    env = make_integers()
    goals = np.eye(8, dtype=np.int64)
    assert env.compute_reward(goals, goals[::-1], {}).tolist() == [-1] * 8
    assert env.compute_reward(goals, goals, {}).tolist() == [0] * 8
    assert env.compute_terminated(goals, goals, {}).all()
    assert env.compute_reward(goals[2], goals[2], {}) == 0


def test_an_environment_without_compute_terminated_stays_without(monkeypatch):
    monkeypatch.delattr(Nested, "compute_terminated")
    assert GoalInterface.of(FlattenGoalObservation(Nested())).compute_terminated is None


def test_vectors_and_images_stay():
    image = BitFlipping(observation="image").observation_space
    for space in (image, BitFlipping().observation_space):
        env = FlattenGoalObservation(TaskEnv(BitFlipping(observation="image" if space is image else "bits")))
        assert env.observation_space == space
