"""What the checker costs: a step under `GoalEnvChecker`, and a whole check.

For example:

    python -m benchmarks.checker --quick             to see that it runs
    python -m benchmarks.checker --out a_page.md     a few minutes

The passive checker's cost is the difference of a step with and without it, as the median over repetitions of
8,000 steps each that take turns; its first 1,000 steps are measured apart, once. A check's time is the median
over repetitions with the default budget.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

import her_envs
from benchmarks.benchmark import Benchmark, count
from her_agents.studies.result_page import Grid
from her_wrappers import GoalEnvChecker, check_goal_env
from her_wrappers.checker.passive import WATCHED_CLOSELY

BENCHMARK = Benchmark("checker", "What the checker costs", __doc__)
STEPS, FEW_STEPS = 8_000, 1_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, show, and write the page."""
    options = BENCHMARK.parse(
        arguments,
        quick="seconds rather than minutes; one repetition",
        repeat={"type": count, "default": 7, "help": "repetitions, of which the median counts [%(default)s]"},
    )
    repeat, steps = (1, FEW_STEPS) if options.quick else (options.repeat, STEPS)
    rows = [row(env_id, repeat, steps) for env_id in her_envs.registration.ENTRY_POINTS]
    header = [
        "environment",
        "plain step [us]",
        "watched, first 1,000 [us]",
        "watched, later [us]",
        "check [s]",
    ]
    run = f"medians of {repeat}, of {steps:,} steps each"
    BENCHMARK.publish(options, [Grid("A step, and a check", header, rows)], {"run": run})


def row(env_id: str, repeat: int, steps: int) -> list[str]:
    """Return what is measured of an environment."""
    plain, early, late = watching_costs(env_id, repeat, steps)
    check = statistics.median(check_seconds(env_id) for _ in range(repeat))
    return [env_id, f"{plain:.1f}", f"+{early - plain:.1f}", f"+{late - plain:.1f}", f"{check:.2f}"]


def watching_costs(env_id: str, repeat: int, steps: int) -> tuple[float, float, float]:
    """Return the microseconds of a plain step, of one watched closely, and of one watched now and then."""
    plain, watched = gym.make(env_id), GoalEnvChecker(gym.make(env_id))
    early = step_microseconds(watched, WATCHED_CLOSELY)
    rows = [(step_microseconds(plain, steps), step_microseconds(watched, steps)) for _ in range(repeat)]
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
