"""Tests of this folder need the packages of requirements.txt, and are not collected without them."""

import importlib.util

NEEDED = ("gymnasium_robotics", "highway_env", "panda_gym", "stable_baselines3")

collect_ignore_glob = [] if all(map(importlib.util.find_spec, NEEDED)) else ["*.py"]
