"""PointReach with another observation: the picture of a camera, and only the x coordinate, as joints."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_envs.canvas import AGENT, BACKGROUND

SIZE = 36  # side of the picture [pixels]
RADIUS = 0.12  # of the point in the picture, and width of a margin around the square [side lengths]

# Positions of the pixels along an axis.
CENTERS = np.linspace(-RADIUS, 1 + RADIUS, 2 * SIZE + 1, dtype=np.float32)[1::2]


class CameraAndJoint(gym.ObservationWrapper[Any, Any, Any]):
    """Replaces the position by a picture of the point, ``camera``, and the x coordinate, ``joints``.

    The policy must find the y coordinate in the picture. The picture does not show the goal: relabeling
    changes goals, but not pictures.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        camera = spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8)
        seen = spaces.Dict({"camera": camera, "joints": spaces.Box(0.0, 1.0, (1,), np.float32)})
        vectors: Any = env.observation_space
        self.observation_space = spaces.Dict({**vectors, "observation": seen})

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        """Return the observation with the picture and the x coordinate."""
        x, y = observation["observation"]
        distances = np.hypot(CENTERS - x, CENTERS[::-1, None] - y)  # row 0 is at the top
        covered = ((RADIUS - distances) / (CENTERS[1] - CENTERS[0]) + 0.5).clip(0, 1)[..., None]
        camera = (BACKGROUND + covered * np.subtract(AGENT, BACKGROUND)).astype(np.uint8)
        return {**observation, "observation": {"camera": camera, "joints": np.array([x])}}


def make_point_reach_camera(**options: Any) -> gym.Env[Any, Any]:
    """Return ``PointReach-v0`` with `CameraAndJoint`; ``options`` are those of the environment."""
    return CameraAndJoint(gym.make("her_envs/PointReach-v0", **options))
