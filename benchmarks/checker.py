"""The time of a step under `GoalEnvChecker`, and of a check with `check_goal_env`.

For example:

    python -m benchmarks.checker --quick             a short test
    python -m benchmarks.checker --out a_page.md     a few minutes

The cost of `GoalEnvChecker` is the difference between the times of a step with and without it. Both are
medians over repetitions of 8,000 steps, which alternate. The first 1,000 steps, in which more is checked, are
measured separately and once. The time of a check is the median over repetitions with the default budget.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

import her_envs
from benchmarks.result_page import Benchmark, Grid, count
from her_wrappers import GoalEnvChecker, check_goal_env
from her_wrappers.checker.passive import WATCHED_CLOSELY

BENCHMARK = Benchmark("checker", "The cost of the checker", __doc__)
STEPS, FEW_STEPS = 8_000, 1_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(
        arguments,
        quick="one repetition: seconds instead of minutes",
        repeat={"type": count, "default": 7, "help": "number of repetitions [%(default)s]"},
    )
    repeat, steps = (1, FEW_STEPS) if options.quick else (options.repeat, STEPS)
    rows = [row(env_id, repeat, steps) for env_id in her_envs.registration.ENTRY_POINTS]
    header = [
        "environment",
        "plain step [us]",
        "checked, first 1,000 [us]",
        "checked, later [us]",
        "check [s]",
    ]
    run = f"medians of {repeat}, of {steps:,} steps each"
    BENCHMARK.publish(options, [Grid("Time of a step and of a check", header, rows)], {"run": run})


def row(env_id: str, repeat: int, steps: int) -> list[str]:
    """Return the measurements of an environment as a row of the table."""
    plain, early, late = measure_steps(env_id, repeat, steps)
    check = statistics.median(check_seconds(env_id) for _ in range(repeat))
    return [env_id, f"{plain:.1f}", f"+{early - plain:.1f}", f"+{late - plain:.1f}", f"{check:.2f}"]


def measure_steps(env_id: str, repeat: int, steps: int) -> tuple[float, float, float]:
    """Return the microseconds of a step: plain, in the first checked steps, and in later checked steps."""
    plain, watched = gym.make(env_id), GoalEnvChecker(gym.make(env_id))
    early = step_microseconds(watched, WATCHED_CLOSELY)
    rows = [(step_microseconds(plain, steps), step_microseconds(watched, steps)) for _ in range(repeat)]
    without, late = (statistics.median(column) for column in zip(*rows, strict=True))
    return without, early, late


def step_microseconds(env: gym.Env[Any, Any], steps: int) -> float:
    """Return the mean microseconds of a step, including resets."""
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
