"""Specimens with the faults of the rules GE0xx: exceptions, spaces, and values outside of them."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from tests.support.specimens.reach import (
    SQUARE,
    DistanceReward,
    FlagReward,
    Reach,
    Specimen,
    goal_dict,
)
from tests.support.specimens.unusual_goals import GoalFromPosition


class StepRaises(Reach, breaks="GE000"):
    def step(self, action):
        if self.elapsed == 7:
            raise RuntimeError("the simulator has crashed")
        return super().step(action)


class StepReturnsFourValues(Reach, breaks="GE000"):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, info


class RewardAlwaysRaises(DistanceReward, breaks="GE000"):
    def compute_reward(self, achieved_goal, desired_goal, info):
        raise RuntimeError("not connected")


class LookupRaises(Specimen, gym.Wrapper, breaks="GE000"):
    """Attributes of the wrapped environment are looked up in a dict without defaults."""

    def __init__(self):
        super().__init__(Reach())

    def get_wrapper_attr(self, name):
        return {"np_random": self.np_random}[name]


class SpaceRaises(Specimen, gym.Wrapper, breaks="GE000"):
    def __init__(self):
        super().__init__(Reach())

    @property
    def observation_space(self):
        raise NotImplementedError


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

    def as_returned(self, observation):
        return {key: observation[key] for key in ("observation", "desired_goal")}


class NoDesiredGoalAtReset(Reach, breaks="GE002"):
    def as_returned(self, observation):
        keys = observation if self.elapsed else ("observation", "achieved_goal")
        return {key: observation[key] for key in keys}


class NoComputeReward(FlagReward, breaks="GE003"):
    compute_reward = None


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
    def as_returned(self, observation):
        return observation | {"desired_goal": self.goal.tolist()}

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


class StacksFrames(Specimen, gym.wrappers.FrameStackObservation, breaks="GE008"):
    def __init__(self):
        super().__init__(Reach(), 2)


class FurtherKey(Reach):
    """The observation has the further key ``more``, an element of the space ``more``."""

    more = SQUARE

    def make_space(self):
        return goal_dict(SQUARE, more=self.more)

    def value(self):
        return self.position.copy()

    def observe(self):
        return super().observe() | {"more": self.value()}


class TextInObservation(FurtherKey, breaks="GE009"):
    more = spaces.Text(20)

    def value(self):
        return "goright" if self.goal[0] > 0 else "goleft"


class TextAsGoal(GoalFromPosition, breaks="GE009"):
    goal_space = spaces.Text(5)

    def goal_of(self, position):
        return "right" if position[0] > 0 else "left"

    def is_success(self, achieved_goal, desired_goal):
        return np.asarray(achieved_goal) == np.asarray(desired_goal)
