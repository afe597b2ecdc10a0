"""Specimens whose reward is not a pure function of two goals and the info."""

from __future__ import annotations

import numpy as np

from tests.support.specimens.reach import DenseReach, Reach


class RewardBeforeTheMove(Reach):
    def step(self, action):
        before = self.observe()
        observation, _, *rest = super().step(action)
        return observation, self.reward(before, {}), *rest


class RewardOffset(Reach):
    def reward(self, observation, info):
        return super().reward(observation, info) + 1.0


class RewardScaled(DenseReach):
    def reward(self, observation, info):
        return 10 * super().reward(observation, info)


class ActionCost(Reach):
    def move(self, action):
        self.cost = 0.1 * float(np.square(action).sum())
        return super().move(action)

    def reward(self, observation, info):
        return super().reward(observation, info) - self.cost


class OtherRadiusInStep(Reach):
    def reward(self, observation, info):
        return float(self.distance(observation["achieved_goal"], observation["desired_goal"]) < 0.4) - 1.0


class OtherNormInStep(DenseReach):
    def reward(self, observation, info):
        return -float(np.abs(observation["achieved_goal"] - observation["desired_goal"]).sum())


class SparseStepDenseFunction(DenseReach):
    def reward(self, observation, info):
        return info["is_success"] - 1.0


class TimePenalty(DenseReach):
    def reward(self, observation, info):
        return super().reward(observation, info) - 0.01 * self.elapsed


class SuccessBonus(DenseReach):
    def reward(self, observation, info):
        return super().reward(observation, info) + 5.0 * info["is_success"]


class RewardRounded(DenseReach):
    def reward(self, observation, info):
        return round(super().reward(observation, info), 3)


class RewardFromHalfPrecision(DenseReach):
    def reward(self, observation, info):
        return float(-self.distance(self.position.astype(np.float16), self.goal.astype(np.float16)))


class ThresholdDecidedTwice(Reach):
    """Success uses < in one place and <= in another; goals on a grid are often exactly at the radius."""

    def draw_start(self):
        return np.round(4 * super().draw_start()) / 4

    def move(self, action):
        return np.round(4 * (self.position + 0.5 * action)).clip(-4, 4).astype(np.float32) / 4

    def distance(self, achieved_goal, desired_goal):
        return np.abs(achieved_goal - desired_goal).max(-1)

    def reward(self, observation, info):
        distance = self.distance(observation["achieved_goal"], observation["desired_goal"])
        return float(distance <= self.radius) - 1.0


class MutatesAchieved(DenseReach):
    def reward(self, observation, info):
        return -float(self.distance(observation["achieved_goal"], observation["desired_goal"]))

    def compute_reward(self, achieved_goal, desired_goal, info):
        achieved_goal -= desired_goal
        return -np.linalg.norm(achieved_goal, axis=-1)


class MutatesDesired(DenseReach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        reward = super().compute_reward(achieved_goal, desired_goal, info)
        desired_goal[:] = np.round(desired_goal, 1)
        return reward

    def reward(self, observation, info):
        return -float(self.distance(observation["achieved_goal"], observation["desired_goal"]))


class MutatesInfo(Reach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        if isinstance(info, dict):
            info["distance"] = self.distance(achieved_goal, desired_goal)
        return super().compute_reward(achieved_goal, desired_goal, info)


class UsesOwnGoal(Reach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, self.goal) - 1.0


class UsesOwnPosition(DenseReach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -self.distance(self.position, desired_goal)


class UsesElapsedTime(DenseReach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -self.distance(achieved_goal, desired_goal) - 0.1 * self.elapsed


class RemembersBestDistance(DenseReach):
    best = 0.0

    def move(self, action):
        self.best = float(self.distance(self.position, self.goal))
        return super().move(action)

    def compute_reward(self, achieved_goal, desired_goal, info):
        return self.best - self.distance(achieved_goal, desired_goal)


class IgnoresGoals(Reach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return np.full(np.shape(achieved_goal)[:-1], -1.0)

    def reward(self, observation, info):
        return -1.0


class RewardFromDistanceInInfo(DenseReach):
    """The info contains the distance to the recorded goal."""

    def inform(self, observation):
        distance = self.distance(observation["achieved_goal"], observation["desired_goal"])
        return super().inform(observation) | {"distance": float(distance)}

    def compute_reward(self, achieved_goal, desired_goal, info):
        if isinstance(info, dict):
            return -info.get("distance", 0.0)
        return -np.array([row.get("distance", 0.0) for row in info])


class RewardFromSuccessInInfo(Reach):
    """The info contains the success flag of the recorded goal."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        rows = [info] if isinstance(info, dict) else info
        reward = np.array([float(row.get("is_success", False)) - 1.0 for row in rows])
        return reward if np.ndim(achieved_goal) > 1 else reward[0]

    def reward(self, observation, info):
        return info["is_success"] - 1.0


class RewardFromRewardInInfo(DenseReach):
    def draw_start(self):
        return np.round(4 * super().draw_start()) / 4

    def move(self, action):
        return (np.round(4 * super().move(action)) / 4).astype(np.float32)

    def inform(self, observation):
        distance = self.distance(observation["achieved_goal"], observation["desired_goal"])
        return super().inform(observation) | {"reward": -float(distance)}

    def compute_reward(self, achieved_goal, desired_goal, info):
        if isinstance(info, dict):
            return info.get("reward", 0.0)
        return np.array([row.get("reward", 0.0) for row in info])


class NoisyReward(DenseReach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        distance = self.distance(achieved_goal, desired_goal)
        return -distance + np.random.default_rng().normal(0, 0.01, distance.shape)


class NoisyThreshold(Reach):
    def is_success(self, achieved_goal, desired_goal):
        noise = np.random.default_rng().normal(0, 0.02)
        return self.distance(achieved_goal, desired_goal) < self.radius + noise

    def inform(self, observation):
        return {}

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return np.zeros(np.shape(achieved_goal)[:-1], bool)


class DrawsRandomNumbers(Reach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        self.np_random.random()
        return super().compute_reward(achieved_goal, desired_goal, info)

    def move(self, action):
        noise = self.np_random.normal(0, 0.05, 2)
        return (super().move(action) + noise).clip(-1, 1).astype(np.float32)

    def reward(self, observation, info):
        return info["is_success"] - 1.0


class CountsCalls(Reach):
    calls = 0

    def compute_reward(self, achieved_goal, desired_goal, info):
        reward = super().compute_reward(achieved_goal, desired_goal, info)
        self.calls += self.is_counted(reward, info)
        return reward

    def is_counted(self, reward, info):
        return True

    def move(self, action):
        calls, self.calls = self.calls, 0
        return super().move(action if calls <= 1 else -action)


class CountsSingleGoalCalls(CountsCalls):
    def is_counted(self, reward, info):
        return np.ndim(reward) == 0 and "is_success" in info


class LogAtZero(DenseReach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -np.log(self.distance(achieved_goal, desired_goal))


class DividesByDistance(DenseReach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        difference = achieved_goal - desired_goal
        cosine = difference[..., 0] / np.linalg.norm(difference, axis=-1)
        return cosine - self.distance(achieved_goal, desired_goal)


class ReturnsNothing(DenseReach):
    def compute_reward(self, achieved_goal, desired_goal, info):
        self.distance(achieved_goal, desired_goal)

    def reward(self, observation, info):
        return -1.0


class RewardNamesDiffer(Reach):
    def compute_reward(self, achieved, desired, info):
        return super().compute_reward(achieved, desired, info)


FAULTS = [
    (RewardBeforeTheMove, "GE101"),
    (RewardOffset, "GE101"),
    (RewardScaled, "GE101"),
    (ActionCost, "GE101"),
    (OtherRadiusInStep, "GE101"),
    (OtherNormInStep, "GE101"),
    (SparseStepDenseFunction, "GE101"),
    (TimePenalty, "GE101"),
    (SuccessBonus, "GE101"),
    (RewardRounded, "GE103"),
    (RewardFromHalfPrecision, "GE103"),
    (ThresholdDecidedTwice, "GE103"),
    (MutatesAchieved, "GE109"),
    (MutatesDesired, "GE109"),
    (MutatesInfo, "GE109"),
    (UsesOwnGoal, "GE110"),
    (UsesOwnPosition, "GE110"),
    (UsesElapsedTime, "GE110"),
    (RemembersBestDistance, "GE110"),
    (IgnoresGoals, "GE110"),
    (RewardFromDistanceInInfo, "GE110"),
    (RewardFromSuccessInInfo, "GE110"),
    (RewardFromRewardInInfo, "GE110"),
    (NoisyReward, "GE111"),
    (NoisyThreshold, "GE111"),
    (DrawsRandomNumbers, "GE112"),
    (CountsCalls, "GE112"),
    (CountsSingleGoalCalls, "GE112"),
    (LogAtZero, "GE114"),
    (DividesByDistance, "GE114"),
    (ReturnsNothing, "GE114"),
    (RewardNamesDiffer, "GE117"),
]
