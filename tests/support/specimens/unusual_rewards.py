"""Correct environments with unusual rewards, terminations and infos."""

import numpy as np

from tests.support.specimens.reach import Reach, from_infos


class FurtherParameter(Reach):
    """compute_reward has another parameter, as in highway-env's parking."""

    def compute_reward(self, achieved_goal, desired_goal, info, p=0.5):
        return super().compute_reward(achieved_goal, desired_goal, info) * (2 * p)


class StaticReward(Reach):
    @staticmethod
    def compute_reward(achieved_goal, desired_goal, info):
        return (np.linalg.norm(achieved_goal - desired_goal, axis=-1) < 0.25) - 1.0


class RewardIsAnAttribute(Reach):
    """compute_reward is a function that the constructor assigns, as in panda-gym."""

    def __init__(self):
        super().__init__()
        self.compute_reward = StaticReward.compute_reward


class SelectableReward(Reach):
    reward_type = "sparse"

    def compute_reward(self, achieved_goal, desired_goal, info):
        if self.reward_type not in {"sparse", "dense"}:
            raise ValueError(f"unknown reward_type {self.reward_type!r}")
        return super().compute_reward(achieved_goal, desired_goal, info)


class CrashInInfo(Reach):
    """compute_terminated reads a crash from the info, and works without the info."""

    def inform(self, observation):
        return super().inform(observation) | {"crashed": bool(np.abs(self.position).max() > 0.97)}

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) | from_infos("crashed", info, False)


REWARDS = [FurtherParameter, StaticReward, RewardIsAnAttribute, SelectableReward, CrashInInfo]
