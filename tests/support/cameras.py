"""Environments with cameras: the position as a vector and as pictures of two sizes."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_wrappers import EpisodeRecorder, HindsightReplayBuffer
from tests.support.specimens.reach import SQUARE, Reach, goal_dict


def image_space(*shape):
    return spaces.Box(0, 255, shape, np.uint8)


def picture(position, height, width):
    """Return a dark picture, (height, width, 1), with a bright square at a position in [-1, 1]."""
    image = np.zeros((height, width, 1), np.uint8)
    top, left = ((position + 1) / 2 * (np.array([height, width]) - 3)).astype(int)
    image[top : top + 3, left : left + 3] = 255
    return image


class CameraReach(Reach):
    """`Reach` with joints and a camera in ``observation``, and with the further keys ``wrist`` and ``exact``.

    ``exact`` has values that only a simulator knows; it does not depend on the goal.
    """

    def terminated(self, observation, info):
        return False

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) & False

    def make_space(self):
        observation = spaces.Dict(joints=SQUARE, camera=image_space(24, 30, 1))
        exact = spaces.Box(-2, 2, (2,), np.float32)
        return goal_dict(SQUARE, observation, wrist=image_space(1, 20, 22), exact=exact)

    def observe(self):
        return {
            "observation": {"joints": self.position.copy(), "camera": picture(self.position, 24, 30)},
            "achieved_goal": self.position.copy(),
            "desired_goal": self.goal.copy(),
            "wrist": picture(self.position, 20, 22).transpose(2, 0, 1),
            "exact": 2 * self.position,
        }


class TupleReach(CameraReach):
    """`CameraReach` whose ``observation`` is a tuple, and whose goals are pictures of another size."""

    def make_space(self):
        space = super().make_space()
        goal = image_space(20, 20, 1)
        observation = spaces.Tuple(tuple(space["observation"][key] for key in ("camera", "joints")))
        return goal_dict(goal, observation, wrist=space["wrist"], exact=space["exact"])

    def observe(self):
        seen = super().observe()
        parts = tuple(seen["observation"][key] for key in ("camera", "joints"))
        goals = {"achieved_goal": self.goal_of(self.position), "desired_goal": self.goal_of(self.goal)}
        return seen | {"observation": parts} | goals

    def goal_of(self, position):
        return picture(position, 20, 20)

    def is_success(self, achieved_goal, desired_goal):
        return np.equal(achieved_goal, desired_goal).all(axis=(-1, -2, -3))

    def compute_reward(self, achieved_goal, desired_goal, info):
        return self.is_success(achieved_goal, desired_goal) - 1.0


class CameraPointReach(gym.ObservationWrapper):
    """PointReach, observed by its position and by a picture of 36 x 36 pixels."""

    def __init__(self):
        super().__init__(gym.make("her_envs/PointReach-v0"))
        known = self.env.observation_space.spaces
        observation = spaces.Dict(position=known["observation"], camera=image_space(36, 36, 1))
        self.observation_space = spaces.Dict({**known, "observation": observation})

    def observation(self, observation):
        position = observation["observation"]
        parts = {"position": position, "camera": picture(2 * position - 1, 36, 36)}
        return observation | {"observation": parts}


class RealReach(CameraReach):
    """`CameraReach` as on a robot, without the key ``exact``."""

    def make_space(self):
        return spaces.Dict({key: part for key, part in super().make_space().items() if key != "exact"})

    def observe(self):
        return {key: part for key, part in super().observe().items() if key != "exact"}


class FourMoves:
    """Mixin: the actions are four moves instead of a Box."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Discrete(4)

    def move(self, action):
        moves = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)
        return super().move(moves[action])


class CameraMoves(FourMoves, CameraReach):
    """`CameraReach` with four moves."""


class TupleMoves(FourMoves, TupleReach):
    """`TupleReach` with four moves."""


class NoWrist(RealReach):
    """`RealReach` without the wrist camera."""

    def make_space(self):
        return spaces.Dict({key: part for key, part in super().make_space().items() if key != "wrist"})


def to_goal(observation):
    """Return the action that moves to the goal."""
    return ((observation["desired_goal"] - observation["observation"]["joints"]) / 0.2).clip(-1, 1)


def batch_from(env, size=16):
    """Return a batch of random episodes."""
    buffer = HindsightReplayBuffer.for_env(env, seed=0)
    recorder = EpisodeRecorder(env, buffer.add_episode)
    env.action_space.seed(0)
    for seed in range(3):
        recorder.reset(seed=seed)
        done = False
        while not done:
            *_, terminated, truncated, _ = recorder.step(env.action_space.sample())
            done = terminated or truncated
    return buffer.sample(size)
