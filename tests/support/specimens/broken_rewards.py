"""Specimens whose reward is not a pure function of two goals and the info."""

from functools import cached_property

import numpy as np
from gymnasium import spaces

from tests.support.specimens.reach import (
    DenseReach,
    DistanceReward,
    FlagReward,
    NeverTerminates,
    Reach,
    from_infos,
    goal_dict,
)


class RewardBeforeTheMove(Reach, breaks="GE101"):
    def step(self, action):
        before = self.observe()
        observation, _, *rest = super().step(action)
        return observation, self.reward(before, {}), *rest


class RewardOffset(Reach, breaks="GE101"):
    def reward(self, observation, info):
        return super().reward(observation, info) + 1.0


class RewardScaled(DenseReach, breaks="GE101"):
    def reward(self, observation, info):
        return 10 * super().reward(observation, info)


class ActionCost(Reach, breaks="GE101"):
    def move(self, action):
        self.cost = 0.1 * float(np.square(action).sum())
        return super().move(action)

    def reward(self, observation, info):
        return super().reward(observation, info) - self.cost


class OtherRadiusInStep(Reach, breaks="GE101"):
    def reward(self, observation, info):
        return float(self.distance(observation["achieved_goal"], observation["desired_goal"]) < 0.4) - 1.0


class RewardRounded(DenseReach, breaks="GE103"):
    def reward(self, observation, info):
        return round(super().reward(observation, info), 3)


class ThresholdDecidedTwice(Reach, breaks="GE103"):
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


class MutatesAchieved(DistanceReward, breaks="GE109"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        achieved_goal -= desired_goal
        return -np.linalg.norm(achieved_goal, axis=-1)


class MutatesInfo(Reach, breaks="GE109"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        if isinstance(info, dict):
            info["distance"] = self.distance(achieved_goal, desired_goal)
        return super().compute_reward(achieved_goal, desired_goal, info)


class UsesOwnGoal(Reach, breaks="GE110"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, self.goal) - 1.0


class UsesElapsedTime(DenseReach, breaks="GE110"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -self.distance(achieved_goal, desired_goal) - 0.1 * self.elapsed


class IgnoresGoals(Reach, breaks="GE110"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return np.full(np.shape(achieved_goal)[:-1], -1.0)

    def reward(self, observation, info):
        return -1.0


class RewardFromDistanceInInfo(DenseReach, breaks="GE110"):
    """The info contains the distance to the recorded goal."""

    def inform(self, observation):
        distance = self.distance(observation["achieved_goal"], observation["desired_goal"])
        return super().inform(observation) | {"distance": float(distance)}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -from_infos("distance", info, 0.0)


class RewardFromSuccessInInfo(FlagReward, breaks="GE110"):
    """The info contains the success flag of the recorded goal."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return from_infos("is_success", info, False) - 1.0


class NoisyReward(DenseReach, breaks="GE111"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        distance = self.distance(achieved_goal, desired_goal)
        return -distance + np.random.default_rng().normal(0, 0.01, distance.shape)


class NoisyThreshold(NeverTerminates, breaks="GE111"):
    @cached_property
    def noise(self):
        return np.random.default_rng(0)  # seeded, since rare sequences show another finding or none

    def is_success(self, achieved_goal, desired_goal):
        noise = self.noise.normal(0, 0.02)
        return self.distance(achieved_goal, desired_goal) < self.radius + noise

    def inform(self, observation):
        return {}


class DrawsRandomNumbers(FlagReward, breaks="GE112"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        self.np_random.random()
        return super().compute_reward(achieved_goal, desired_goal, info)

    def move(self, action):
        noise = self.np_random.normal(0, 0.05, 2)
        return (super().move(action) + noise).clip(-1, 1).astype(np.float32)


class CountsCalls(Reach, breaks="GE112"):
    calls = 0

    def compute_reward(self, achieved_goal, desired_goal, info):
        self.calls += 1
        return super().compute_reward(achieved_goal, desired_goal, info)

    def move(self, action):
        calls, self.calls = self.calls, 0
        return super().move(action if calls <= 1 else -action)


class LogAtZero(DenseReach, breaks="GE114"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -np.log(self.distance(achieved_goal, desired_goal))


class ReturnsNothing(DenseReach, breaks="GE114"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        self.distance(achieved_goal, desired_goal)

    def reward(self, observation, info):
        return -1.0


class RewardNamesDiffer(Reach, breaks="GE117"):
    def compute_reward(self, achieved, desired, info):
        return super().compute_reward(achieved, desired, info)


class Turns(NeverTerminates):
    """The goal is an angle of a turntable, and the reward knows that angles wrap around."""

    period = 2 * np.pi

    def make_space(self):
        return goal_dict(spaces.Box(-4, 4, (1,), np.float64), spaces.Box(-1, 1, (2,), np.float64))

    def draw_start(self):
        return self.np_random.uniform(-np.pi, np.pi, (2, 1))

    def move(self, action):
        return (self.position + action[:1] + np.pi) % (2 * np.pi) - np.pi

    def observe(self):
        seen = np.array([np.cos(self.position[0]), np.sin(self.position[0])])
        return super().observe() | {"observation": seen}

    def distance(self, achieved_goal, desired_goal):
        half = self.period / 2
        return abs((achieved_goal - desired_goal + half) % self.period - half)[..., 0]


class TurnsWithoutWrapping(Turns, breaks="GE124"):
    period = 100


class DenseTurnsWithoutWrapping(TurnsWithoutWrapping, breaks="GE124"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -self.distance(achieved_goal, desired_goal)


class TurnsAsQuaternion(Turns):
    """The goal is a quaternion whose last component is not negative, and the reward knows that -q is q."""

    sign = 0

    def make_space(self):
        return goal_dict(spaces.Box(-1, 1, (4,), np.float64), spaces.Box(-1, 1, (2,), np.float64))

    def goal_of(self, position):
        half = (position[0] + np.pi / 2) / 2
        quaternion = np.array([np.cos(half), 0, 0, np.sin(half)])
        return quaternion if quaternion[0] > 0 else -quaternion

    def distance(self, achieved_goal, desired_goal):
        cosine = (achieved_goal * desired_goal).sum(axis=-1)
        return 2 * np.arccos(np.clip(cosine if self.sign else abs(cosine), -1, 1))


class TurnsWithSignOfQuaternion(TurnsAsQuaternion, breaks="GE124"):
    sign = 1


class TurnsInOneRange(Turns):
    """A joint with limits at half a turn does not wrap around, and neither does the distance."""

    period = 100

    def move(self, action):
        return (self.position + action[:1]).clip(-np.pi, np.pi)


class Docks(NeverTerminates, breaks="GE308"):
    """A docking mechanism draws the point to the goal when it is near."""

    def move(self, action):
        moved = super().move(action)
        return self.goal.copy() if self.distance(moved, self.goal) < 0.4 else moved


class Lost(NeverTerminates, breaks="GE210"):
    """The episode terminates far from the goal, which compute_terminated does not return."""

    def terminated(self, observation, info):
        return bool(self.distance(self.position, self.goal) > 1.3)


class StopsAtTheGoal(Reach):
    """An action is repeated, but no longer than until the goal is reached, which ends the episode."""

    def move(self, action):
        for _ in range(3):
            self.position = super().move(action)
            if self.is_success(self.position, self.goal):
                break
        return self.position


class LeavesTheSquare(NeverTerminates):
    """The episode terminates near the edge of the square, wherever the goal is."""

    def terminated(self, observation, info):
        return bool(np.abs(self.position).max() > 0.9) and not info["is_success"]


class LeavesTheGoalOfAll(Lost):
    """The goal of all episodes is the center, so the end depends on the position only."""

    def draw_start(self):
        return np.stack([self.np_random.uniform(-1, 1, 2), np.zeros(2)]).astype(self.dtype)


class GoalInMillimeters(NeverTerminates, breaks="GE211"):
    """The desired goal is in another unit than the achieved goal."""

    horizon = 8

    def make_space(self):
        return goal_dict(spaces.Box(-1e3, 1e3, (2,), self.dtype), spaces.Box(-1, 1, (2,), self.dtype))

    def draw_start(self):
        start, goal = super().draw_start()
        return start, 1000 * goal


class FarGoals(NeverTerminates):
    """No random episode reaches its goal, but an episode of moves in one direction does."""

    def make_space(self):
        square = spaces.Box(-9, 9, (2,), self.dtype)
        return goal_dict(square, square)

    def move(self, action):
        return (self.position + 0.2 * np.clip(action, -1, 1)).astype(self.dtype)

    def draw_start(self):
        angle = self.np_random.uniform(0, 2 * np.pi)
        return np.zeros(2, self.dtype), 3.5 * np.array([np.cos(angle), np.sin(angle)], self.dtype)


class TouchesSeldom(FarGoals):
    """Random actions seldom move the object, so that its moves do not show how far it can get."""

    def move(self, action):
        return super().move(action / 50 if self.elapsed % 10 == 3 else action * 0)


CORRECT_REWARDS = [
    Turns,
    TurnsAsQuaternion,
    TurnsInOneRange,
    StopsAtTheGoal,
    LeavesTheSquare,
    LeavesTheGoalOfAll,
    FarGoals,
    TouchesSeldom,
]
