"""Specimens whose compute_terminated is right for recorded steps, and wrong when a buffer calls it."""

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.support.specimens.broken_buffer_use import IntegerReach
from tests.support.specimens.reach import DenseReach, Reach, Specimen, from_infos


class TerminationReadsTheFlag(Reach, breaks="GE209"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return from_infos("is_success", info, False)


class TerminationReadsTheOldGoal(Reach, breaks="GE209"):
    """The info contains the desired goal of the recorded step."""

    def inform(self, observation):
        return super().inform(observation) | {"goal": observation["desired_goal"].copy()}

    def compute_terminated(self, achieved_goal, desired_goal, info):
        goal = from_infos("goal", info, np.full(2, 9.0))
        return self.is_success(achieved_goal, goal) if len(achieved_goal) else np.zeros(0, bool)


class TerminationOfAHundredRows(Reach, breaks="GE206"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        reached = self.is_success(achieved_goal, desired_goal)
        return reached[:100] if np.ndim(reached) else reached


class TerminationFailsForManyRows(Reach, breaks="GE206"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        if np.ndim(achieved_goal) > 1 and len(achieved_goal) > 1000:
            raise MemoryError("more than 1000 goals")
        return self.is_success(achieved_goal, desired_goal)


class TerminationOfTheEnvironments(Specimen, SyncVectorEnv, breaks="GE206"):
    """A batch with a row for each environment gets the last terminations of the environments."""

    count = 5  # no other batch of the checker has this size

    def __init__(self):
        super().__init__([Reach] * self.count, autoreset_mode=AutoresetMode.NEXT_STEP)
        self.last = np.zeros(self.count, bool)

    def step(self, actions):
        observations, rewards, self.last, *returned = super().step(actions)
        return observations, rewards, self.last.copy(), *returned

    def compute_terminated(self, achieved_goal, desired_goal, info):
        if len(achieved_goal) == self.count:
            return self.last.copy()
        return self.envs[0].compute_terminated(achieved_goal, desired_goal, info)


class TerminationMovesThePoint(Reach, breaks="GE112"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        if np.ndim(achieved_goal) > 1:
            self.position = self.position * np.float32(0.5)
        return self.is_success(achieved_goal, desired_goal)


class TerminationNeedsInfoKey(Reach, breaks="GE113"):
    def inform(self, observation):
        return super().inform(observation) | {"crashed": False}

    def compute_terminated(self, achieved_goal, desired_goal, info):
        rows = [info] if isinstance(info, dict) else info
        crashed = np.array([row["crashed"] for row in rows], bool).reshape(np.shape(achieved_goal)[:-1])
        return self.is_success(achieved_goal, desired_goal) | crashed


class RewardNeedsInfoAsList(Reach, breaks="GE113"):
    """compute_reward reads infos of a list, but not of an array."""

    def inform(self, observation):
        return super().inform(observation) | {"cost": 0.0}

    def compute_reward(self, achieved_goal, desired_goal, info):
        cost = from_infos("cost", info, 0.0) if isinstance(info, list) else info.get("cost", 0.0)
        return super().compute_reward(achieved_goal, desired_goal, info) - cost


class TerminationChangesGoals(DenseReach, breaks="GE109"):
    def terminated(self, observation, info):
        return False

    def compute_terminated(self, achieved_goal, desired_goal, info):
        achieved_goal -= desired_goal
        return np.zeros(np.shape(achieved_goal)[:-1], bool)


class TerminationIsRandom(Reach, breaks="GE111"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        noise = np.random.default_rng().normal(0, 0.1, np.shape(achieved_goal)[:-1])
        return self.distance(achieved_goal, desired_goal) + noise < self.radius


class TerminationOverflows(IntegerReach, breaks="GE118"):
    def terminated(self, observation, info):
        return bool(self.compute_terminated(observation["achieved_goal"], observation["desired_goal"], info))

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return np.square(achieved_goal - desired_goal).sum(-1) < 900


class TerminationOfOneGoalHasARow(Reach, breaks="GE108"):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(np.atleast_2d(achieved_goal), np.atleast_2d(desired_goal))
