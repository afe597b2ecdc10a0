"""Specimens whose goal functions fail only as replay buffers call them: with batches, other infos, views."""

import numpy as np
from gymnasium import spaces

from tests.support.specimens.correct import CostInInfo
from tests.support.specimens.reach import (
    DenseReach,
    FlagReward,
    Reach,
    from_infos,
    goal_dict,
    goals,
    wrong_end,
    wrong_reward,
)
from tests.support.specimens.unusual_goals import GoalFromPosition, GridGoals

reward, dense_reward = Reach.compute_reward, DenseReach.compute_reward


def is_batch(goal):
    return np.ndim(goal) > 1


wrong_reward("GE104", "BranchesOnDistance", lambda env, a, d, _: 0.0 if env.is_success(a, d) else -1.0)


class MadeForPairs(Reach, breaks="GE104"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        if is_batch(achieved_goal) and len(achieved_goal) > 2:
            raise BufferError("more than 2 goals")
        return super().compute_reward(achieved_goal, desired_goal, info)


wrong_reward("GE105", "NormOverEverything", lambda env, a, d, _: -np.linalg.norm(a - d), DenseReach)


class ReducesFirstAxis(DenseReach, breaks="GE105"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -np.abs(achieved_goal - desired_goal).sum(axis=0)

    def distance(self, achieved_goal, desired_goal):
        return np.abs(achieved_goal - desired_goal).sum(axis=-1)


class LooksAtFirstGoalOnly(Reach, breaks="GE106"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        desired_goal = desired_goal[0] if is_batch(desired_goal) and len(desired_goal) else desired_goal
        return super().compute_reward(achieved_goal, desired_goal, info)


def row_for_one_goal(env, achieved_goal, desired_goal, info):
    return env.is_success(np.atleast_2d(achieved_goal), np.atleast_2d(desired_goal))


wrong_reward("GE108", "OneGoalGivesOneRow", lambda *call: row_for_one_goal(*call) - 1.0, FlagReward)
wrong_end("GE108", "TerminationOfOneGoalHasARow", row_for_one_goal)
wrong_reward("GE108", "SqueezesBatchOfOne", lambda *call: np.squeeze(reward(*call)))


class FailsOnEmptyBatch(DenseReach, breaks="GE108"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        reward = super().compute_reward(achieved_goal, desired_goal, info)
        return reward.clip(min=np.min(reward))


class NeedsInfoKey(Reach, breaks="GE113"):
    def inform(self, observation):
        return super().inform(observation) | {"cost": 0.0}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return super().compute_reward(achieved_goal, desired_goal, info) - info["cost"]


wrong_reward("GE113", "NeedsInfoAsDict", lambda *call: reward(*call) - call[-1].get("cost", 0.0))


class RewardNeedsInfoAsList(Reach, breaks="GE113"):
    """compute_reward reads infos of a list, but not of an array."""

    def inform(self, observation):
        return super().inform(observation) | {"cost": 0.0}

    def compute_reward(self, achieved_goal, desired_goal, info):
        cost = from_infos("cost", info, 0.0) if isinstance(info, list) else info.get("cost", 0.0)
        return super().compute_reward(achieved_goal, desired_goal, info) - cost


class TerminationNeedsInfoKey(Reach, breaks="GE113"):
    def inform(self, observation):
        return super().inform(observation) | {"crashed": False}

    def compute_terminated(self, achieved_goal, desired_goal, info):
        rows = [info] if isinstance(info, dict) else info
        crashed = np.array([row["crashed"] for row in rows], bool).reshape(np.shape(achieved_goal)[:-1])
        return self.is_success(achieved_goal, desired_goal) | crashed


class LosesTheCost(CostInInfo, breaks="GE113"):
    """The reward contains the cost of the action, unless infos are an array."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        infos = {} if isinstance(info, np.ndarray) else info
        return super().compute_reward(achieved_goal, desired_goal, infos)


class IntegerReach(DenseReach):
    """Goals are integers in a wide range, such as steps of a motor."""

    dtype = np.int16
    bound = 300

    def make_space(self):
        grid = spaces.Box(-self.bound, self.bound, (2,), self.dtype)
        return goal_dict(grid, grid)

    def draw_start(self):
        return self.np_random.integers(-self.bound, self.bound + 1, (2, 2)).astype(self.dtype)

    def move(self, action):
        moved = self.position + np.round(0.4 * self.bound * action).astype(int)
        return moved.clip(-self.bound, self.bound).astype(self.dtype)

    def is_success(self, achieved_goal, desired_goal):
        return np.abs(np.subtract(achieved_goal, desired_goal, dtype=np.int64)).max(-1) <= self.bound // 10


class SquaresOverflowAtTheEdges(IntegerReach, breaks="GE118"):
    """compute_reward squares 16-bit integers; only squares of differences from 182 to 184 overflow."""

    bound = 92

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -np.square(achieved_goal - desired_goal).sum(-1).astype(np.float64)


class TerminationOverflows(IntegerReach, breaks="GE118"):
    def terminated(self, observation, info):
        return bool(self.compute_terminated(*goals(observation), info))

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return np.square(achieved_goal - desired_goal).sum(-1) < 900


class WrapsUnsigned(GridGoals, breaks="GE118"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -np.abs(achieved_goal - desired_goal).sum(-1).astype(np.float32)


class DropsTheLastChunk(DenseReach, breaks="GE105"):
    chunk = 60

    def compute_reward(self, achieved_goal, desired_goal, info):
        if not is_batch(achieved_goal) or len(achieved_goal) < self.chunk:
            return super().compute_reward(achieved_goal, desired_goal, info)
        whole = len(achieved_goal) // self.chunk * self.chunk
        return super().compute_reward(achieved_goal[:whole], desired_goal[:whole], info)


class CountsRowsInBytes(Reach, breaks="GE106"):
    """compute_reward stores row indices as bytes, which overflow beyond 256 rows."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        reward = super().compute_reward(achieved_goal, desired_goal, info)
        return reward[np.arange(len(reward)).astype(np.uint8)] if np.ndim(reward) else reward


class ReadsTheBuffer(DenseReach, breaks="GE121"):
    """compute_reward reads memory as if arrays were contiguous, like C code without support for strides."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        achieved, desired = (self.from_memory(goal) for goal in (achieved_goal, desired_goal))
        return super().compute_reward(achieved, desired, info)

    def from_memory(self, goal):
        base = goal if goal.flags.c_contiguous else np.ascontiguousarray(goal.base.view(np.float32))
        return base.ravel()[: goal.size].reshape(goal.shape)


class SubtractsAndAddsBack(IntegerReach, breaks="GE121"):
    """compute_reward changes integer goals in place, and then restores them exactly."""

    dtype = np.int32

    def compute_reward(self, achieved_goal, desired_goal, info):
        achieved_goal -= desired_goal
        reward = -np.linalg.norm(achieved_goal, axis=-1)
        achieved_goal += desired_goal
        return reward


class ConcatenatesInItsOwnOrder(GoalFromPosition, breaks="GE121"):
    """The order of the keys in observations is not that of the space, in which buffers return goals."""

    line = spaces.Box(-1, 1, (1,), np.float32)
    goal_space = spaces.Dict({"x": line, "y": line})

    def goal_of(self, position):
        return {"y": position[1:].copy(), "x": position[:1].copy()}

    def is_success(self, achieved_goal, desired_goal):
        goals = [np.concatenate(list(goal.values()), axis=-1) for goal in (achieved_goal, desired_goal)]
        return self.distance(*(goal * [1, 3] for goal in goals)) < 0.4


class TerminationInOneArray(Reach, breaks="GE122"):
    output = np.zeros(5000, bool)

    def compute_terminated(self, achieved_goal, desired_goal, info):
        reached = super().compute_terminated(achieved_goal, desired_goal, info)
        if not np.ndim(reached):
            return reached
        return np.copyto(self.output[: len(reached)], reached) or self.output[: len(reached)]
