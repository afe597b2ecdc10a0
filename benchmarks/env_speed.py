"""The speed of the bundled environments, compared with environments of other libraries in the same run.

For example:

    python -m benchmarks.env_speed --quick             a short test
    python -m benchmarks.env_speed --out a_page.md     some minutes

All environments run in turns. Each ratio is computed within one turn, so that a busy machine slows both
sides; the table shows medians over the turns. The time of a step includes resets. Actions are sampled before
the measurement. The other environments are Stable-Baselines3's BitFlippingEnv, alone and in Gymnasium's
SyncVectorEnv, and Gymnasium's CartPoleVectorEnv. Python's garbage collector is disabled while time is
measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.envs import BitFlippingEnv

import her_envs
from benchmarks.result_page import Benchmark, Grid, Requirement, at_least, requirement_grid
from benchmarks.timing import Timing, Workload, measure

BIT_FLIPPING, POINT_REACH, POINT_MAZE = (
    f"her_envs/{name}-v0" for name in ("BitFlipping", "PointReach", "PointMaze")
)
BENCHMARK = Benchmark("env_speed", "Speed of the bundled environments", __doc__, ("stable-baselines3",))
SCALE = (64, 256, 1024, 4096, 16384)


@dataclass(frozen=True)
class Contender:
    """An environment to measure.

    Attributes:
        name: Name in the table.
        num_envs: Number of environments that one call steps.
        run: Function of a number of calls; makes the calls of `step`.
    """

    name: str
    num_envs: int
    run: Callable[[int], None]


def single(name: str, env: gym.Env[Any, Any]) -> Contender:
    """Return the contender of a single environment, which is reset when an episode ends."""
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(97)]
    env.reset(seed=0)

    def run(calls: int) -> None:
        for i in range(calls):
            _, _, terminated, truncated, _ = env.step(actions[i % 97])
            if terminated or truncated:
                env.reset()

    return Contender(name, 1, run)


def vector(name: str, env: gym.vector.VectorEnv[Any, Any, Any]) -> Contender:
    """Return the contender of a vector environment with autoreset."""
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(17)]
    env.reset(seed=0)

    def run(calls: int) -> None:
        for i in range(calls):
            env.step(actions[i % 17])

    return Contender(name, env.num_envs, run)


def native(env_id: str, num_envs: int, **options: Any) -> Contender:
    """Return the contender of a bundled vector environment, made by `gym.make_vec`."""
    extra = "".join(f", {value}" for value in options.values())
    name = f"{env_id.split('/')[1]} native x{num_envs}{extra}"
    return vector(name, gym.make_vec(env_id, num_envs=num_envs, **options))


def contenders() -> list[Contender]:
    """Return all environments of the table."""
    return [
        single("BitFlipping single", her_envs.TaskEnv(her_envs.BitFlipping())),
        single("SB3 BitFlippingEnv single", BitFlippingEnv(10)),
        single("PointReach single", her_envs.TaskEnv(her_envs.PointReach())),
        vector("SB3 BitFlippingEnv sync x64", gym.vector.SyncVectorEnv([lambda: BitFlippingEnv(10)] * 64)),
        vector("CartPole native x4096", gym.make_vec("CartPole-v1", num_envs=4096)),
        native(BIT_FLIPPING, 1),
        *(native(env_id, count) for env_id in (BIT_FLIPPING, POINT_REACH) for count in SCALE),
        native(BIT_FLIPPING, 1024, autoreset_mode="SameStep"),
        native("her_envs/BitFlippingImage-v0", 1024),
        native("her_envs/PointPush-v0", 4096),
        native(POINT_MAZE, 4096),
    ]


RATIOS = [
    ("BitFlipping-v0 native x1024", "SB3 BitFlippingEnv sync x64", 100, 300),
    ("BitFlipping single", "SB3 BitFlippingEnv single", 1, None),
    ("PointReach-v0 native x4096", "CartPole native x4096", 2, 4),
    ("BitFlipping-v0 native x16384", "BitFlipping-v0 native x64", 1, None),
    ("PointReach-v0 native x16384", "PointReach-v0 native x64", 1, None),
    # Measured without a requirement.
    ("PointPush-v0 native x4096", "CartPole native x4096", None, None),
    ("PointMaze-v0 native x4096", "CartPole native x4096", None, None),
    ("PointReach single", "SB3 BitFlippingEnv single", None, None),
    ("BitFlipping-v0 native x1", "BitFlipping single", None, None),
    ("BitFlippingImage-v0 native x1024", "BitFlipping-v0 native x1024", None, None),
]
"""Two environments, and the promised and hoped-for ratio of their speeds."""


def speeds_of(measured: list[Contender], timing: Timing) -> dict[str, np.ndarray]:
    """Return the steps per second of each contender in each turn, (turns,)."""
    workloads = {contender.name: Workload(contender.run, units=contender.num_envs) for contender in measured}
    return {name: 1 / costs for name, costs in measure(workloads, timing).items()}


def speed_grid(measured: list[Contender], speeds: dict[str, np.ndarray]) -> Grid:
    """Return the median speed of each contender."""
    rows = []
    for contender in measured:
        speed = float(np.median(speeds[contender.name]))
        call = 1e6 * contender.num_envs / speed
        rows.append([contender.name, f"{speed:,.0f}", f"{call:,.1f}", f"{1e9 / speed:,.1f}"])
    header = ["environment", "steps/s", "us per call", "ns per environment step"]
    return Grid("Speed", header, rows)


def requirements(speeds: dict[str, np.ndarray]) -> list[Requirement]:
    """Return the requirements, with the median ratios."""
    return [
        at_least(
            f"{ours}: times as fast as {theirs}",
            promised,
            float(np.median(speeds[ours] / speeds[theirs])),
            hoped=hoped,
        )
        for ours, theirs, promised, hoped in RATIOS
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(arguments, quick="a short, inaccurate measurement: seconds instead of minutes")
    timing = Timing(5, 0.02) if options.quick else Timing(15, 0.2)
    measured = contenders()
    speeds = speeds_of(measured, timing)
    grids = [requirement_grid(requirements(speeds), quick=options.quick), speed_grid(measured, speeds)]
    BENCHMARK.publish(options, grids, {"run": str(timing)})


if __name__ == "__main__":
    main()
