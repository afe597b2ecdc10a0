"""Specimens whose reward is correct for one pair of goals and wrong for a batch."""

import numpy as np

from tests.support.specimens.reach import DenseReach, FlagReward, Reach


class BranchesOnDistance(Reach, breaks="GE104"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return 0.0 if self.is_success(achieved_goal, desired_goal) else -1.0


class MadeForPairs(Reach, breaks="GE104"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        if np.ndim(achieved_goal) > 1 and len(achieved_goal) > 2:
            raise BufferError("more than 2 goals")
        return super().compute_reward(achieved_goal, desired_goal, info)


class NormOverEverything(DenseReach, breaks="GE105"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -np.linalg.norm(achieved_goal - desired_goal)


class ReducesFirstAxis(DenseReach, breaks="GE105"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -np.abs(achieved_goal - desired_goal).sum(axis=0)

    def distance(self, achieved_goal, desired_goal):
        return np.abs(achieved_goal - desired_goal).sum(axis=-1)


class OneRewardForAllRows(Reach, breaks="GE106"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        success = np.all(self.is_success(achieved_goal, desired_goal))
        return np.full(np.shape(achieved_goal)[:-1], success - 1.0)


class LooksAtFirstGoalOnly(Reach, breaks="GE106"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        desired_goal = desired_goal[0] if np.ndim(desired_goal) > 1 and len(desired_goal) else desired_goal
        return super().compute_reward(achieved_goal, desired_goal, info)


class OneGoalGivesOneRow(FlagReward, breaks="GE108"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return super().compute_reward(np.atleast_2d(achieved_goal), np.atleast_2d(desired_goal), info)


class SqueezesBatchOfOne(Reach, breaks="GE108"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return np.squeeze(super().compute_reward(achieved_goal, desired_goal, info))


class FailsOnEmptyBatch(DenseReach, breaks="GE108"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        reward = super().compute_reward(achieved_goal, desired_goal, info)
        return reward.clip(min=np.min(reward))


class NeedsInfoKey(Reach, breaks="GE113"):
    def inform(self, observation):
        return super().inform(observation) | {"cost": 0.0}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return super().compute_reward(achieved_goal, desired_goal, info) - info["cost"]

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal)


class NeedsInfoAsDict(Reach, breaks="GE113"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return super().compute_reward(achieved_goal, desired_goal, info) - info.get("cost", 0.0)


class ReversedComparison(Reach, breaks="GE115"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -self.is_success(achieved_goal, desired_goal).astype(np.float32)


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
