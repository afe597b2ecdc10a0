"""Specimens with faults in observations or spaces."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from tests.support.specimens.reach import SQUARE, DistanceReward, FlagReward, Reach, Specimen, goal_dict


class StepRaises(Reach, breaks="GE000"):
    def step(self, action):
        if self.elapsed == 7:
            raise RuntimeError("the simulator has crashed")
        return super().step(action)


class ResetRaises(Reach, breaks="GE000"):
    resets = 0

    def reset(self, *, seed=None, options=None):
        self.resets += 1
        if self.resets == 5:
            raise OSError("no such level")
        return super().reset(seed=seed)


class StepReturnsFourValues(Reach, breaks="GE000"):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, info


class RewardAlwaysRaises(DistanceReward, breaks="GE000"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        raise RuntimeError("not connected")


class FlatObservation(Specimen, gym.Env, breaks="GE001"):
    observation_space = spaces.Box(-1, 1, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 4).astype(np.float32), {}

    def step(self, action):
        return self.np_random.uniform(-1, 1, 4).astype(np.float32), 0.0, False, False, {}


class NoAchievedGoalInSpace(Reach, breaks="GE002"):
    def make_space(self):
        return spaces.Dict({"observation": SQUARE, "desired_goal": SQUARE})

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        del observation["achieved_goal"]
        return observation, info

    def step(self, action):
        observation, *rest = super().step(action)
        del observation["achieved_goal"]
        return observation, *rest


class NoDesiredGoalAtReset(Reach, breaks="GE002"):
    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        del observation["desired_goal"]
        return observation, info


class NoComputeReward(FlagReward, breaks="GE003"):
    compute_reward = None


class GoalsOfOtherDtype(Reach, breaks="GE004"):
    def make_space(self):
        return goal_dict(SQUARE, desired_goal=spaces.Box(-1, 1, (2,), np.float64))

    def observe(self):
        return super().observe() | {"desired_goal": self.goal.astype(np.float64)}


class GoalsOfOtherShape(Reach, breaks="GE004"):
    def make_space(self):
        return goal_dict(SQUARE, achieved_goal=spaces.Box(-1, 1, (3,), np.float32))

    def observe(self):
        return super().observe() | {"achieved_goal": np.append(self.position, np.float32(0))}

    def distance(self, achieved_goal, desired_goal):
        return np.linalg.norm(achieved_goal[..., :2] - desired_goal[..., :2], axis=-1)


class Float64InFloat32Space(Reach, breaks="GE005"):
    def observe(self):
        return super().observe() | {"observation": self.position.astype(np.float64)}


class GoalAsList(FlagReward, breaks="GE005"):
    def observe(self):
        return super().observe() | {"desired_goal": self.goal.tolist()}

    def inform(self, observation):
        return {"is_success": bool(self.is_success(observation["achieved_goal"], self.goal))}

    def terminated(self, observation, info):
        return info["is_success"]

    def distance(self, achieved_goal, desired_goal):
        return np.linalg.norm(np.asarray(achieved_goal) - np.asarray(desired_goal), axis=-1)


class NanInObservation(Reach, breaks="GE005"):
    def observe(self):
        observation = super().observe()
        if self.elapsed == 3:
            observation["observation"][1] = np.nan
        return observation


class UndeclaredKey(Reach, breaks="GE005"):
    def observe(self):
        return super().observe() | {"velocity": np.zeros(2, np.float32)}


class GoalBoundsDiffer(Reach, breaks="GE006"):
    def make_space(self):
        return goal_dict(SQUARE, desired_goal=spaces.Box(-2, 2, (2,), np.float32))


class SpacesRebuilt(Reach, breaks="GE007"):
    def reset(self, *, seed=None, options=None):
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        return super().reset(seed=seed)
