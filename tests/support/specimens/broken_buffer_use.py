"""Specimens whose goal functions fail only when they are called as in a replay buffer."""

import numpy as np
from gymnasium import spaces

from tests.support.specimens.correct_goals import GridGoals
from tests.support.specimens.reach import DenseReach, Reach, goal_dict


class DropsTheLastChunk(DenseReach, breaks="GE119"):
    chunk = 60

    def compute_reward(self, achieved_goal, desired_goal, info):
        if np.ndim(achieved_goal) == 1 or len(achieved_goal) < self.chunk:
            return super().compute_reward(achieved_goal, desired_goal, info)
        whole = len(achieved_goal) // self.chunk * self.chunk
        return super().compute_reward(achieved_goal[:whole], desired_goal[:whole], info)


class CountsRowsInBytes(Reach, breaks="GE119"):
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


class TerminationSortsInPlace(DenseReach, breaks="GE121"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        order = achieved_goal.copy()
        achieved_goal.sort(axis=-1)
        achieved_goal[:] = order
        return super().compute_terminated(achieved_goal, desired_goal, info)


class OneOutputArray(DenseReach, breaks="GE122"):
    output = None

    def compute_reward(self, achieved_goal, desired_goal, info):
        reward = super().compute_reward(achieved_goal, desired_goal, info)
        if not np.ndim(reward):
            return reward
        if self.output is None or len(self.output) < len(reward):
            self.output = np.empty(max(100, len(reward)))
        self.output[: len(reward)] = reward
        return self.output[: len(reward)]


class TerminationInOneArray(Reach, breaks="GE122"):
    output = np.zeros(5000, bool)

    def compute_terminated(self, achieved_goal, desired_goal, info):
        reached = super().compute_terminated(achieved_goal, desired_goal, info)
        if not np.ndim(reached):
            return reached
        return np.copyto(self.output[: len(reached)], reached) or self.output[: len(reached)]


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


class SubtractsAndAddsBack(IntegerReach, breaks="GE121"):
    """compute_reward changes integer goals in place, and then restores them exactly."""

    dtype = np.int32

    def compute_reward(self, achieved_goal, desired_goal, info):
        achieved_goal -= desired_goal
        reward = -np.linalg.norm(achieved_goal, axis=-1)
        achieved_goal += desired_goal
        return reward


class SquaresOverflow(IntegerReach, breaks="GE118"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -np.square(achieved_goal - desired_goal).sum(-1).astype(np.float64)


class SquaresOverflowAtTheEdges(SquaresOverflow, breaks="GE118"):
    """compute_reward squares 16-bit integers; only squares of differences from 182 to 184 overflow."""

    bound = 92


class WrapsUnsigned(GridGoals, breaks="GE118"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return -np.abs(achieved_goal - desired_goal).sum(-1).astype(np.float32)
