"""The speed of the bundled environments, compared with environments of other libraries in the same run.

For example:

    python -m benchmarks.env_speed --quick             a short test
    python -m benchmarks.env_speed --out a_page.md     some minutes

The time of a step includes resets, but not the choice of actions. In the table, x64 means 64 environments.
`native` vector environments step all environments at once; `sync` is Gymnasium's SyncVectorEnv. The autoreset
mode is NextStep unless the table says SameStep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.envs import BitFlippingEnv

import her_envs
from benchmarks.result_page import Benchmark, Grid, Requirement, at_least, in_words
from benchmarks.timing import Timing, Workload, measure, stepping

BENCHMARK = Benchmark("env_speed", "How fast are the bundled environments?", __doc__, ("stable-baselines3",))
FULL, QUICK = Timing(turns=15, seconds=0.2), Timing(turns=5, seconds=0.02)
SCALE = (64, 1024, 4096, 16384)


def vector(env: gym.vector.VectorEnv[Any, Any, Any]) -> Workload:
    """Return the workload of stepping a vector environment; a unit is one step of one environment."""
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(17)]
    env.reset(seed=0)

    def run(calls: int) -> None:
        for i in range(calls):
            env.step(actions[i % 17])

    return Workload(run, units=env.num_envs)


def workloads() -> dict[str, Workload]:
    """Return the workloads of all environments of the table by name."""
    made = {
        "BitFlipping single": stepping(her_envs.TaskEnv(her_envs.BitFlipping())),
        "SB3 BitFlippingEnv single": stepping(BitFlippingEnv(10)),
        "PointReach single": stepping(her_envs.TaskEnv(her_envs.PointReach())),
        "SB3 BitFlippingEnv sync x64": vector(gym.vector.SyncVectorEnv([lambda: BitFlippingEnv(10)] * 64)),
        "CartPole native x4096": vector(gym.make_vec("CartPole-v1", num_envs=4096)),
    }
    native: list[tuple[str, int, dict[str, Any]]] = [
        *((name, count, {}) for name in ("BitFlipping", "PointReach") for count in SCALE),
        ("BitFlipping", 1024, {"autoreset_mode": "SameStep"}),
        ("BitFlippingImage", 1024, {}),
        ("PointPush", 4096, {}),
        ("PointMaze", 4096, {}),
    ]
    for name, count, options in native:
        label = ", ".join([f"{name}-v0 native x{count}", *options.values()])
        made[label] = vector(gym.make_vec(f"her_envs/{name}-v0", num_envs=count, **options))
    return made


RATIOS = [
    ("BitFlipping-v0 native x1024", "SB3 BitFlippingEnv sync x64", 100),
    ("BitFlipping single", "SB3 BitFlippingEnv single", 1),
    ("PointReach-v0 native x4096", "CartPole native x4096", 2),
    ("BitFlipping-v0 native x16384", "BitFlipping-v0 native x64", 1),
    ("PointReach-v0 native x16384", "PointReach-v0 native x64", 1),
]
"""Two environments, and the required ratio of their speeds, for each requirement."""


def speed_grid(speeds: dict[str, np.ndarray]) -> Grid:
    """Return the median speed of each environment."""
    rows = [[name, f"{np.median(values):,.0f}"] for name, values in speeds.items()]
    return Grid("Speed", ["environment", "steps per second"], rows)


def requirements(speeds: dict[str, np.ndarray]) -> list[Requirement]:
    """Return the requirements, with the median ratios."""
    return [
        at_least(f"{ours} / {theirs}", bound, float(np.median(speeds[ours] / speeds[theirs])))
        for ours, theirs, bound in RATIOS
    ]


def answer(speeds: dict[str, np.ndarray]) -> str:
    """Return the speed of one environment and of many, for the page."""
    single, native = (
        float(np.median(speeds[name])) for name in ("PointReach single", "PointReach-v0 native x4096")
    )
    ratio = float(np.median(speeds["PointReach-v0 native x4096"] / speeds["CartPole native x4096"]))
    return (
        f"A single `PointReach` makes {single:,.0f} steps per second. A vector environment with 4,096 of "
        f"them makes {native / 1e6:.0f} million: {in_words(ratio)} than Gymnasium's with 4,096 CartPoles."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(arguments, quick="a short, inaccurate measurement: seconds instead of minutes")
    timing = QUICK if options.quick else FULL
    speeds = {name: 1 / costs for name, costs in measure(workloads(), timing).items()}
    found = requirements(speeds)
    facts = {"run": str(timing)}
    BENCHMARK.publish(options, answer(speeds), [speed_grid(speeds)], facts, requirements=found)


if __name__ == "__main__":
    main()
