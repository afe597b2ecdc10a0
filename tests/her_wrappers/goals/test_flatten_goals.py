"""FlattenGoalObservation: environments whose spaces are not vectors or images."""

import numpy as np
import pytest
from gymnasium import spaces

from her_envs import BitFlipping, TaskEnv
from her_wrappers import GoalInterface, check_goal_env
from her_wrappers.goals.repairs import FlattenGoalObservation, _unflatten
from tests.support.specimens.reach import SQUARE, Reach, goal_dict

NESTED = spaces.Dict({
    "place": spaces.Box(-1, 1, (2, 3)),
    "color": spaces.Discrete(3, start=5),
    "more": spaces.Tuple([spaces.MultiDiscrete([2, 4]), spaces.MultiBinary((2, 2))]),
})


class DictGoals(Reach):
    """`Reach` with Dicts as goals, and a nested Dict as observation."""

    def make_space(self):
        part = spaces.Box(-1, 1, (1,))
        seen = spaces.Dict(near=spaces.Dict(place=SQUARE), left=spaces.Discrete(2))
        return goal_dict(spaces.Dict(x=part, y=part), seen)

    def goal_of(self, position):
        return {"x": position[:1].copy(), "y": position[1:].copy()}

    def observe(self):
        seen = {"near": {"place": self.position.copy()}, "left": np.int64(self.position[0] < 0)}
        return super().observe() | {"observation": seen}

    def distance(self, achieved_goal, desired_goal):
        return np.hypot(*(achieved_goal[key][..., 0] - desired_goal[key][..., 0] for key in "xy"))


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


@pytest.mark.parametrize("factory", [make_integers, lambda: FlattenGoalObservation(DictGoals())])
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
    monkeypatch.delattr(Reach, "compute_terminated")
    assert GoalInterface.of(FlattenGoalObservation(DictGoals())).compute_terminated is None


def test_vectors_and_images_stay():
    image = BitFlipping(observation="image").observation_space
    for space in (image, BitFlipping().observation_space):
        env = FlattenGoalObservation(TaskEnv(BitFlipping(observation="image" if space is image else "bits")))
        assert env.observation_space == space
