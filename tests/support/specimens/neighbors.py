"""Correct environments that resemble faulty ones: for each rule, a use that it must not report."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from tests.support.specimens.arms import CORRECT_ARMS
from tests.support.specimens.broken_episodes import Photographed, Relative, StopsAtTheGoal
from tests.support.specimens.broken_rewards import Turns, TurnsAsQuaternion, TurnsInOneRange
from tests.support.specimens.broken_success import (
    FarGoals,
    LeavesTheGoalOfAll,
    LeavesTheSquare,
    TouchesSeldom,
)
from tests.support.specimens.reach import DenseReach, Reach, from_infos, goal_dict


class FallInInfo(DenseReach):
    """Only a fall terminates, which is independent of goals; compute_terminated reads it from the info."""

    def inform(self, observation):
        return super().inform(observation) | {"fell": bool(np.abs(self.position).max() > 0.9)}

    def terminated(self, observation, info):
        return info["fell"]

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return np.broadcast_to(from_infos("fell", info, False), np.shape(achieved_goal)[:-1])


class OneStartAndGoal(Reach):
    """All episodes begin alike, with every seed."""

    def draw_start(self):
        return np.float32([[-0.5, 0], [0.5, 0]])


class FlagAtTheEnd(Reach):
    """The flag is in the last info of an episode only."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, info if terminated or truncated else {}


class StackedGoals(gym.ObservationWrapper):
    """A wrapper changes the shape of goals, and its compute_reward accepts the new shape."""

    def __init__(self):
        super().__init__(Reach())
        goal = spaces.Box(-1, 1, (2, 2), np.float32)
        self.observation_space = goal_dict(goal, self.env.observation_space["observation"])

    def observation(self, observation):
        stacked = {key: np.stack([observation[key]] * 2) for key in ("achieved_goal", "desired_goal")}
        return observation | stacked

    def compute_reward(self, achieved_goal, desired_goal, info):
        return self.env.compute_reward(achieved_goal[..., 0, :], desired_goal[..., 0, :], info)

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.env.compute_terminated(achieved_goal[..., 0, :], desired_goal[..., 0, :], info)


class Tensors(gym.Wrapper):
    """Observations, rewards, flags and infos are tensors."""

    def convert(self, value):
        import torch  # noqa: PLC0415 - other specimens do not need torch

        if isinstance(value, dict):
            return {key: self.convert(part) for key, part in value.items()}
        return torch.as_tensor(value)

    def reset(self, *, seed=None, options=None):
        return tuple(map(self.convert, self.env.reset(seed=seed, options=options)))

    def step(self, action):
        return tuple(map(self.convert, self.env.step(np.asarray(action))))


class Client:
    """Simulators of all environments, which refer to them by number, as in PyBullet."""

    worlds: list = []  # noqa: RUF012 - shared by all environments


class RemoteReach(Reach):
    """The position is in a simulator; a deep copy of the environment has the number of the same simulator."""

    def __init__(self):
        super().__init__()
        self.client = len(Client.worlds)
        Client.worlds.append(None)

    position = property(
        lambda self: Client.worlds[self.client],
        lambda self, value: Client.worlds.__setitem__(self.client, value),
    )


class CopiesDisconnect(Reach):
    """Only the environment that the constructor made may be used."""

    def __init__(self):
        super().__init__()
        self.owner = id(self)

    def step(self, action):
        if self.owner != id(self):
            raise RuntimeError("not connected")
        return super().step(action)


class ObservesTheMove(Relative):
    """The observation contains the last move in addition to the position."""

    last = np.zeros(2)

    def extra(self, position, goal):
        return self.last

    def draw_start(self):
        self.last = np.zeros(2)
        return super().draw_start()

    def move(self, action):
        moved = super().move(action)
        self.last = moved - self.position
        return moved


def tensors():
    return Tensors(Reach())


def alike_in_all_rows():
    return SyncVectorEnv([OneStartAndGoal] * 3)


NEIGHBORS = {
    make.__name__: make
    for make in (
        FallInInfo, OneStartAndGoal, FlagAtTheEnd, StackedGoals, ObservesTheMove, tensors, alike_in_all_rows,
        *CORRECT_ARMS, Turns, TurnsAsQuaternion, TurnsInOneRange, StopsAtTheGoal, LeavesTheSquare,
        LeavesTheGoalOfAll, FarGoals, TouchesSeldom, Photographed,
    )
}  # fmt: skip

INSTANCES = [RemoteReach, CopiesDisconnect]
"""Correct environments that cannot be copied."""
