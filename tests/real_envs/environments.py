"""Functions that make widely used environments of other packages, by name."""

from functools import partial

import gymnasium as gym
import gymnasium_robotics
import highway_env
import panda_gym
from stable_baselines3.common.envs import BitFlippingEnv

for package in (gymnasium_robotics, highway_env, panda_gym):
    gym.register_envs(package)

ROBOTICS = [
    "FetchReach-v4",
    "FetchPush-v4",
    "FetchSlide-v4",
    "FetchPickAndPlace-v4",
    "HandReach-v3",
    "HandManipulatePen-v1",
    "PointMaze_UMaze-v3",
    "AntMaze_UMaze-v5",
    "FrankaKitchen-v1",
]
FLIPS = {  # with few bits, so that random actions reach goals soon
    "BitFlippingEnv": partial(BitFlippingEnv, 5),
    "BitFlippingEnv, continuous=True": partial(BitFlippingEnv, 5, continuous=True),
    "BitFlippingEnv, discrete_obs_space=True": partial(BitFlippingEnv, 5, discrete_obs_space=True),
    "BitFlippingEnv, image_obs_space=True": partial(BitFlippingEnv, 5, image_obs_space=True),
}
PANDA = ["PandaReach-v3", "PandaPush-v3", "PandaPickAndPlace-v3", "PandaSlide-v3", "PandaStack-v3"]

MAKERS = {
    **{env_id: partial(gym.make, env_id) for env_id in [*ROBOTICS, *PANDA, "parking-v0"]},
    "PointMaze_UMaze-v3, continuing_task=False": partial(
        gym.make, "PointMaze_UMaze-v3", continuing_task=False
    ),
    "PointMaze_Open-v3, reset_target=True": partial(gym.make, "PointMaze_Open-v3", reset_target=True),
    **FLIPS,
}
