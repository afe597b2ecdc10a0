"""Specimens whose reward is not a pure function of two goals and the info (rules GE1xx)."""

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
    goals,
    wrong_reward,
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


class BonusInTheLastStep(Reach, breaks="GE101"):
    def reward(self, observation, info):
        return super().reward(observation, info) + 0.5 * (self.elapsed == self.horizon)


class OtherRadiusInStep(Reach, breaks="GE101"):
    def reward(self, observation, info):
        return float(self.distance(*goals(observation)) < 0.4) - 1.0


class RewardsAtRestOnly(Reach, breaks="GE101"):
    """The reward also needs a small action, which compute_reward does not know."""

    def move(self, action):
        self.is_slow = bool(np.abs(action).max() < 0.7)
        return super().move(action)

    def reward(self, observation, info):
        return super().reward(observation, info) if self.is_slow else -1.0


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
        return float(self.distance(*goals(observation)) <= self.radius) - 1.0


class MutatesAchieved(DistanceReward, breaks="GE109"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        achieved_goal -= desired_goal
        return -np.linalg.norm(achieved_goal, axis=-1)


class MutatesInfo(Reach, breaks="GE109"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        if isinstance(info, dict):
            info["distance"] = self.distance(achieved_goal, desired_goal)
        return super().compute_reward(achieved_goal, desired_goal, info)


class TerminationChangesGoals(DenseReach, breaks="GE109"):
    def terminated(self, observation, info):
        return False

    def compute_terminated(self, achieved_goal, desired_goal, info):
        achieved_goal -= desired_goal
        return np.zeros(np.shape(achieved_goal)[:-1], bool)


wrong_reward("GE110", "UsesOwnGoal", lambda env, a, d, _: env.is_success(a, env.goal) - 1.0)
wrong_reward(
    "GE110", "UsesElapsedTime", lambda env, a, d, _: -env.distance(a, d) - env.elapsed / 10, DenseReach
)


class IgnoresGoals(Reach, breaks="GE110"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return np.full(np.shape(achieved_goal)[:-1], -1.0)

    def reward(self, observation, info):
        return -1.0


class RewardFromDistanceInInfo(DenseReach, breaks="GE110"):
    """The info contains the distance to the recorded goal."""

    def inform(self, observation):
        return super().inform(observation) | {"distance": float(self.distance(*goals(observation)))}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -from_infos("distance", info, 0.0)


class RewardFromSuccessInInfo(FlagReward, breaks="GE110"):
    """The info contains the success flag of the recorded goal."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return from_infos("is_success", info, False) - 1.0


class ReadsInfo(Reach):
    """The reward contains ``info["term"]``."""

    def inform(self, observation):
        return super().inform(observation) | {"term": self.term()}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return super().compute_reward(achieved_goal, desired_goal, info) + from_infos("term", info, 0.0)


class ProgressInInfo(ReadsInfo, breaks="GE110"):
    """The term is the distance by which the last step came closer to the recorded goal."""

    last = 0.0

    def term(self):
        before, self.last = self.last, float(self.distance(self.position, self.goal))
        return before - self.last if self.elapsed else 0.0


class NoisyThreshold(NeverTerminates, breaks="GE111"):
    @cached_property
    def noise(self):
        return np.random.default_rng(0)  # seeded, since rare sequences show another finding or none

    def is_success(self, achieved_goal, desired_goal):
        noise = self.noise.normal(0, 0.02)
        return self.distance(achieved_goal, desired_goal) < self.radius + noise

    def inform(self, observation):
        return {}


class TerminationIsRandom(Reach, breaks="GE111"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        noise = np.random.default_rng().normal(0, 0.1, np.shape(achieved_goal)[:-1])
        return self.distance(achieved_goal, desired_goal) + noise < self.radius


class DrawsRandomNumbers(FlagReward, breaks="GE112"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        self.np_random.random()
        return super().compute_reward(achieved_goal, desired_goal, info)

    def move(self, action):
        noise = self.np_random.normal(0, 0.05, 2)
        return (super().move(action) + noise).clip(-1, 1).astype(np.float32)


class TerminationMovesThePoint(Reach, breaks="GE112"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        if np.ndim(achieved_goal) > 1:
            self.position = self.position * np.float32(0.5)
        return self.is_success(achieved_goal, desired_goal)


wrong_reward("GE114", "LogAtZero", lambda env, a, d, _: -np.log(env.distance(a, d)), DenseReach)


class ReturnsNothing(DenseReach, breaks="GE114"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        self.distance(achieved_goal, desired_goal)

    def reward(self, observation, info):
        return -1.0


wrong_reward("GE115", "ReversedComparison", lambda env, a, d, _: -np.float32(env.is_success(a, d)))


class OnlyOwnGoals(Reach, breaks="GE115"):
    """Only four desired goals can be reached, so relabeled goals never are."""

    def draw_start(self):
        return np.stack([super().draw_start()[0], self.np_random.choice([-0.5, 0.5], 2).astype(np.float32)])

    def is_success(self, achieved_goal, desired_goal):
        is_own = (np.abs(desired_goal) == 0.5).all(axis=-1)
        return (self.distance(achieved_goal, desired_goal) < self.radius) & is_own


class SparseThatIsDense(DenseReach, breaks="GE116"):
    reward_type = "sparse"


class DenseThatIsSparse(Reach, breaks="GE116"):
    reward_type = "dense"


class NoneForUnknownType(Reach, breaks="GE116"):
    reward_type = "sparse"

    def compute_reward(self, achieved_goal, desired_goal, info):
        if self.reward_type == "sparse":
            return super().compute_reward(achieved_goal, desired_goal, info)
        if self.reward_type == "dense":
            return -self.distance(achieved_goal, desired_goal)
        return None


class RewardNamesDiffer(Reach, breaks="GE117"):
    def compute_reward(self, achieved, desired, info):
        return super().compute_reward(achieved, desired, info)


class RewardHasARow(Reach, breaks="GE123"):
    def reward(self, observation, info):
        return np.array([super().reward(observation, info)])


class TruncatedIsAList(Reach, breaks="GE123"):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, [truncated], info


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
