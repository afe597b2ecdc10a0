"""What the checker costs: a step under `GoalEnvChecker`, and a whole check.

Method: the passive checker's cost is the difference of a step with and without it, as the median over
repetitions of 8000 steps each that take turns; its first 1000 steps are measured apart, once. A check's time
is the median over repetitions with the default budget. Run it on an idle machine:
``python -m benchmarks.checker``.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from typing import Any

import gymnasium as gym
import numpy as np

import her_envs
from her_wrappers import GoalEnvChecker, check_goal_env
from her_wrappers.checker.passive import WATCHED_CLOSELY

STEPS = 8000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=7, help="repetitions, of which the median counts [7]")
    repeat = parser.parse_args().repeat
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    print(f"Python {platform.python_version()}, numpy {np.__version__}, gymnasium {gym.__version__}")
    print(f"median of {repeat}\n")
    print("| environment | plain step [us] | watched, first 1000 [us] | watched, later [us] | check [s] |")
    print("|---|---|---|---|---|")
    for env_id in her_envs.registration.ENTRY_POINTS:
        plain, early, late = watching_costs(env_id, repeat)
        check = statistics.median(check_seconds(env_id) for _ in range(repeat))
        print(f"| {env_id} | {plain:.1f} | +{early - plain:.1f} | +{late - plain:.1f} | {check:.2f} |")


def watching_costs(env_id: str, repeat: int) -> tuple[float, float, float]:
    """Return the microseconds of a plain step, of one watched closely, and of one watched now and then."""
    plain, watched = gym.make(env_id), GoalEnvChecker(gym.make(env_id))
    early = step_microseconds(watched, WATCHED_CLOSELY)
    rows = [(step_microseconds(plain, STEPS), step_microseconds(watched, STEPS)) for _ in range(repeat)]
    without, late = (statistics.median(column) for column in zip(*rows, strict=True))
    return without, early, late


def step_microseconds(env: gym.Env[Any, Any], steps: int) -> float:
    """Return the mean microseconds of a step, with the resets that it brings about."""
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(steps)]
    env.reset(seed=0)
    start = time.perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return (time.perf_counter() - start) / steps * 1e6


def check_seconds(env_id: str) -> float:
    """Return the seconds of one check with the default budget."""
    start = time.perf_counter()
    check_goal_env(gym.make(env_id)).raise_if_errors(strict=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
