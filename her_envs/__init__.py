"""Reference goal environments for validating Hindsight Experience Replay.

Importing the package registers its environments: ``her_envs/BitFlipping-v0``,
``her_envs/BitFlippingContinuous-v0``, ``her_envs/BitFlippingImage-v0``, ``her_envs/PointReach-v0``,
``her_envs/PointMaze-v0``, ``her_envs/PointPush-v0`` and the diagnostic ``her_envs/Counting-v0``.
"""

from her_envs.bit_flipping import BitFlipping
from her_envs.counting import Counting
from her_envs.env import TaskEnv
from her_envs.point_maze import PointMaze
from her_envs.point_push import PointPush
from her_envs.point_reach import PointReach
from her_envs.registration import register_envs
from her_envs.task import GoalTask
from her_envs.vector_env import TaskVectorEnv

__all__ = [
    "BitFlipping",
    "Counting",
    "GoalTask",
    "PointMaze",
    "PointPush",
    "PointReach",
    "TaskEnv",
    "TaskVectorEnv",
    "register_envs",
]

register_envs()
