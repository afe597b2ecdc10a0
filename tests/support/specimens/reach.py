"""Reach: a correct environment, of which most broken specimens are subclasses with one fault."""

from functools import partial

import gymnasium as gym
import numpy as np
from gymnasium import spaces

SQUARE = spaces.Box(-1, 1, (2,), np.float32)

FAULTS = []
"""All broken specimens, each with the code of the rule that it breaks; `broken` completes the list."""


def goal_dict(goal, observation=SQUARE, **more):
    """Return an observation space with the same space for both goals."""
    return spaces.Dict({"observation": observation, "achieved_goal": goal, "desired_goal": goal} | more)


def from_infos(key, info, default):
    """Return one info of each row of a batch, or of one info."""
    if isinstance(info, dict):
        return info.get(key, default)
    return np.array([row.get(key, default) for row in info])


def goals(observation):
    """Return the achieved and the desired goal of an observation."""
    return observation["achieved_goal"], observation["desired_goal"]


class Specimen:
    """Base of specimens: ``class Late(Reach, breaks="GE101")`` adds a class to `FAULTS`."""

    def __init_subclass__(cls, breaks=None, **options):
        super().__init_subclass__(**options)
        if breaks is not None:
            FAULTS.append((cls, breaks))


class Reach(Specimen, gym.Env):
    """A point in a square moves to a goal; the episode terminates when the point reaches the goal."""

    radius = 0.25
    horizon = 20
    dtype = np.float32
    may_start_solved = False

    def __init__(self):
        self.observation_space = self.make_space()
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    def make_space(self):
        square = spaces.Box(-1, 1, (2,), self.dtype)
        return goal_dict(square, square)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.goal = self.draw_start()
        while not self.may_start_solved and self.is_success(*map(self.goal_of, (self.position, self.goal))):
            self.position, self.goal = self.draw_start()
        self.elapsed = 0
        self.use_options(options)
        observation = self.observe()
        return self.as_returned(observation), self.inform(observation)

    def use_options(self, options):
        """Change the state that was drawn."""

    def as_returned(self, observation):
        """Change the observation, but not info, reward and end, which were computed from it."""
        return observation

    def draw_start(self):
        return self.np_random.uniform(-1, 1, (2, 2)).astype(self.dtype)

    def step(self, action):
        self.position = self.move(action)
        self.elapsed += 1
        observation = self.observe()
        info = self.inform(observation)
        reward = self.reward(observation, info)
        terminated = self.terminated(observation, info)
        truncated = self.elapsed >= self.horizon and not terminated
        return self.as_returned(observation), reward, terminated, truncated, info

    def move(self, action):
        return (self.position + 0.2 * np.clip(action, -1, 1)).clip(-1, 1).astype(self.dtype)

    def observe(self):
        return {
            "observation": self.position.copy(),
            "achieved_goal": self.goal_of(self.position),
            "desired_goal": self.goal_of(self.goal),
        }

    def goal_of(self, position):
        return position.copy()

    def inform(self, observation):
        return {"is_success": bool(self.is_success(*goals(observation)))}

    def reward(self, observation, info):
        return float(self.compute_reward(*goals(observation), info))

    def terminated(self, observation, info):
        return bool(self.compute_terminated(*goals(observation), info))

    def distance(self, achieved_goal, desired_goal):
        return np.linalg.norm(achieved_goal - desired_goal, axis=-1)

    def is_success(self, achieved_goal, desired_goal):
        return self.distance(achieved_goal, desired_goal) < self.radius

    def compute_reward(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) - 1.0

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal)


class NeverTerminates(Reach):
    """The same task, in which success does not terminate the episode."""

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) & False


class DenseReach(NeverTerminates):
    """The same task with a dense reward; success does not terminate the episode."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -self.distance(achieved_goal, desired_goal)


class FlagReward(Reach):
    """The same task, in which step() computes the reward from the success flag."""

    def reward(self, observation, info):
        return info["is_success"] - 1.0


class DistanceReward(DenseReach):
    """The dense task, in which step() computes the reward from the distance."""

    def reward(self, observation, info):
        return -float(self.distance(*goals(observation)))


def wrong_info(code, name, change, base=Reach):
    """Add a specimen whose infos are ``change(env, info)``, where ``info`` is that of ``base``."""

    def inform(self, observation):
        return change(self, base.inform(self, observation))

    return type(name, (base,), {"inform": inform}, breaks=code)


def wrong_reward(code, name, function, base=Reach, replaced="compute_reward"):
    """Add a specimen whose compute_reward is ``function(env, achieved_goal, desired_goal, info)``."""

    def compute(self, achieved_goal, desired_goal, info):
        return function(self, achieved_goal, desired_goal, info)

    return type(name, (base,), {replaced: compute}, breaks=code)


wrong_end = partial(wrong_reward, replaced="compute_terminated")
