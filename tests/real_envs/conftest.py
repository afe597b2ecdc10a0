"""Tests of this folder need the packages of requirements.txt, and are not collected without them."""

import importlib.util
import os

NEEDED = ("gymnasium_robotics", "highway_env", "panda_gym", "stable_baselines3")

collect_ignore_glob = ["*.py"]
if all(map(importlib.util.find_spec, NEEDED)):
    collect_ignore_glob = []
    os.environ.setdefault("MUJOCO_GL", "egl")  # MuJoCo reads this when it is imported
