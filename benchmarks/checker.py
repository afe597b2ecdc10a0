"""The time of a step under `GoalEnvChecker`, and of a check with `check_goal_env`.

For example:

    python -m benchmarks.checker --quick             a short test
    python -m benchmarks.checker --out a_page.md     a few minutes

The cost of `GoalEnvChecker` is the time of a step with the wrapper minus the time without it, resets
included. The wrapper checks all of the first 1,000 steps, but only every 40th of the later ones.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import gymnasium as gym
import numpy as np

import her_envs
from benchmarks.result_page import Benchmark, Grid, count
from benchmarks.timing import Timing, measure, repeat, stepping
from her_wrappers import GoalEnvChecker, check_goal_env
from her_wrappers.checker.goal_env_checker import WATCHED_CLOSELY

BENCHMARK = Benchmark("checker", "What does checking an environment cost?", __doc__)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(
        arguments,
        quick="one short turn: seconds instead of minutes",
        repeat={"type": count, "default": 7, "help": "number of turns [%(default)s]"},
    )
    timing = Timing(1, 0.05) if options.quick else Timing(options.repeat, 0.5)
    rows = [row(env_id, timing) for env_id in her_envs.registration.ENTRY_POINTS]
    header = [
        "environment",
        "step [us]",
        "added in the first 1,000 steps [us]",
        "added later [us]",
        "her check [s]",
    ]
    checks, later = ([float(each[column]) for each in rows] for column in (4, 3))
    answer = (
        f"`her check` takes {min(checks):.1f} to {max(checks):.1f} seconds for the bundled environments. "
    )
    answer += f"The wrapper `GoalEnvChecker` adds {min(later):.0f} to {max(later):.0f} microseconds to each "
    answer += "step after the first 1,000."
    grids = [Grid("Time of a step and of a check", header, rows)]
    BENCHMARK.publish(options, answer, grids, {"run": str(timing)})


def row(env_id: str, timing: Timing) -> list[str]:
    """Return the measurements of an environment as a row of the table."""
    plain, watched = stepping(gym.make(env_id)), stepping(GoalEnvChecker(gym.make(env_id)))
    start = time.perf_counter()
    watched.run(WATCHED_CLOSELY)
    early = 1e6 * (time.perf_counter() - start) / WATCHED_CLOSELY
    costs = measure({"plain": plain, "watched": watched}, timing)
    bare, late = (1e6 * float(np.median(costs[name])) for name in ("plain", "watched"))
    check = repeat(lambda: check_goal_env(gym.make(env_id)).raise_if_errors(strict=True))
    seconds = float(np.median(measure({"check": check}, timing)["check"]))
    return [env_id, f"{bare:.1f}", f"+{early - bare:.1f}", f"+{late - bare:.1f}", f"{seconds:.2f}"]


if __name__ == "__main__":
    main()
