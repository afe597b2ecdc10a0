"""Whether a run on a robot holds the control rate while the agent learns.

For example:

    python -m benchmarks.real_time --quick             a short test
    python -m benchmarks.real_time                     about eight minutes

The robot is PointPush in real time: `step` moves the point, then sleeps until the end of the control period
of 50 ms (20 Hz). The agent is SAC with two layers of 256 units and batches of 256. A deviation is the
difference between 50 ms and the time from the beginning of one step to that of the next, within an episode.
The loop that only sleeps shows the accuracy of the machine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

import her_envs
from benchmarks.result_page import Benchmark, Grid, at_most, count
from her_agents import Config, train
from her_wrappers import RealRobot

gym.register_envs(her_envs)
BENCHMARK = Benchmark("real_time", "Does a robot keep its control rate while the agent learns?", __doc__)
PERIOD = 0.05  # seconds
BOUND = 5.0  # milliseconds
EPISODE, LEARNING_STARTS = 50, 50  # steps

ROWS: dict[str, dict[str, Any] | None] = {
    "a loop that sleeps": None,
    "`--real`, no updates": {"real": True, "updates_per_step": 1e-9},
    "`--real`, 1 update for each step": {"real": True, "updates_per_step": 1},
    "`--real`, 4 updates for each step": {"real": True, "updates_per_step": 4},
    "not `--real`, 4 updates for each step": {"updates_per_step": 4},
}


class Paced(gym.Wrapper[Any, Any, Any, Any]):
    """An environment in real time."""

    _end = 0.0  # of the control period

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step, then wait for the end of the control period."""
        result = self.env.step(action)
        self._end = max(self._end + PERIOD, time.perf_counter())
        time.sleep(max(0.0, self._end - time.perf_counter()))
        return result

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and begin the first control period."""
        result = self.env.reset(**options)
        self._end = time.perf_counter()
        return result


class Noted(RealRobot):
    """Collects the seconds between the beginnings of steps."""

    def __init__(self, periods: list[float]) -> None:
        super().__init__(Paced(gym.make("her_envs/PointPush-v0")))
        self._periods = periods

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step, and note the time since the previous step."""
        result = super().step(action)
        if seconds := result[4]["step_seconds"]:
            self._periods.append(seconds)
        return result


def run(options: dict[str, Any] | None, steps: int) -> np.ndarray:
    """Return the periods in seconds of a run, or of a loop that only sleeps."""
    periods: list[float] = []
    if options is None:
        end = latest = time.perf_counter()
        for _ in range(steps):
            end += PERIOD
            time.sleep(max(0.0, end - time.perf_counter()))
            now = time.perf_counter()
            periods.append(now - latest)
            latest = now
        return np.array(periods)
    agent = {"hidden": [256, 256]}
    numbers = {
        "max_episode_steps": min(EPISODE, steps // 6),
        "steps": steps,
        "steps_per_epoch": steps,
        "learning_starts": LEARNING_STARTS,
        "batch_size": 256,
    }
    config = Config(
        "her_envs/PointPush-v0", "sac", num_envs=1, evaluate_every=0, agent=agent, **numbers | options
    )
    train(config, env=Noted(periods), on_epoch=None)
    return np.array(periods[LEARNING_STARTS:])  # with updates


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    turns = {"type": count, "default": 3, "metavar": "N", "help": "number of turns [3]"}
    options = BENCHMARK.parse(arguments, quick="one turn of 3 seconds for each row", turns=turns)
    steps, turns = (60, 1) if options.quick else (400, options.turns)
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in ROWS}
    for _ in range(turns):
        for name, chosen in ROWS.items():
            periods = run(chosen, steps)
            deviations = 1000 * abs(periods - PERIOD)
            parts = (1000 * np.median(periods), np.median(deviations), np.quantile(deviations, 0.99))
            found[name].append((*parts, deviations.max()))
    medians = {name: np.median(values, axis=0) for name, values in found.items()}
    header = ["run", "period, ms", "median deviation, ms", "99th percentile", "largest"]
    cells = [[name, *(f"{x:.1f}" for x in values)] for name, values in medians.items()]
    learning, floor = medians["`--real`, 1 update for each step"], medians["a loop that sleeps"]
    answer = (
        f"At 20 Hz with one update for each step, 99 % of the control periods deviate by at most "
        f"{learning[2]:.1f} ms from 50 ms; in a loop that only sleeps, by {floor[2]:.1f} ms."
    )
    requirement = at_most(
        "the 99th percentile of the deviations in ms, while the agent learns", BOUND, learning[2]
    )
    facts = {"turns": f"{turns} of {steps * PERIOD:.0f} s for each row"}
    BENCHMARK.publish(
        options, answer, [Grid("Control periods", header, cells)], facts, requirements=[requirement]
    )


if __name__ == "__main__":
    main()
