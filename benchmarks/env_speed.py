"""How fast the bundled environments step, against their peers, in one run.

For example:

    python -m benchmarks.env_speed --quick             to see that it runs
    python -m benchmarks.env_speed --out a_page.md     some minutes

All contenders step in turn, again and again, and each ratio is taken within one turn, so that a busy
machine slows both sides; the table gives medians over the turns. A step includes the resets that it causes.
Actions are drawn beforehand. Peers: Stable-Baselines3's BitFlippingEnv alone and in Gymnasium's
SyncVectorEnv, and Gymnasium's own CartPoleVectorEnv. Python's garbage collector rests meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.envs import BitFlippingEnv

import her_envs
from benchmarks.benchmark import Benchmark
from benchmarks.timing import Pace, Work, measure
from her_agents.studies.result_page import Claim, Grid, at_least, claim_grid

BIT_FLIPPING, POINT_REACH, POINT_MAZE = (
    f"her_envs/{name}-v0" for name in ("BitFlipping", "PointReach", "PointMaze")
)
BENCHMARK = Benchmark("env_speed", "How fast the bundled environments step", __doc__, ("stable-baselines3",))
SCALE = (64, 256, 1024, 4096, 16384)


@dataclass(frozen=True)
class Contender:
    """Something that steps.

    Attributes:
        name: What it is.
        num_envs: Environments that one call steps.
        run: Makes that many calls.
    """

    name: str
    num_envs: int
    run: Callable[[int], None]


def single(name: str, env: gym.Env[Any, Any]) -> Contender:
    """Step one environment, and reset it when an episode ends."""
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
    """Step a vector environment that resets by itself."""
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(17)]
    env.reset(seed=0)

    def run(calls: int) -> None:
        for i in range(calls):
            env.step(actions[i % 17])

    return Contender(name, env.num_envs, run)


def native(env_id: str, num_envs: int, **options: Any) -> Contender:
    """Step a bundled environment as `gym.make_vec` makes it."""
    extra = "".join(f", {value}" for value in options.values())
    name = f"{env_id.split('/')[1]} native x{num_envs}{extra}"
    return vector(name, gym.make_vec(env_id, num_envs=num_envs, **options))


def contenders() -> list[Contender]:
    """Make everything that the table shows."""
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
    # Where we lose, or may.
    ("PointPush-v0 native x4096", "CartPole native x4096", None, None),
    ("PointMaze-v0 native x4096", "CartPole native x4096", None, None),
    ("PointReach single", "SB3 BitFlippingEnv single", None, None),
    ("BitFlipping-v0 native x1", "BitFlipping single", None, None),
    ("BitFlippingImage-v0 native x1024", "BitFlipping-v0 native x1024", None, None),
]
"""Ours and theirs; how many times as fast we promise to be, and hope to be."""


def speeds_of(measured: list[Contender], pace: Pace) -> dict[str, np.ndarray]:
    """Return the steps a second of each contender in each turn, (turns,)."""
    works = {contender.name: Work(contender.run, parts=contender.num_envs) for contender in measured}
    return {name: 1 / costs for name, costs in measure(works, pace).items()}


def speed_grid(measured: list[Contender], speeds: dict[str, np.ndarray]) -> Grid:
    """Return the median speed of each contender."""
    rows = []
    for contender in measured:
        speed = float(np.median(speeds[contender.name]))
        call = 1e6 * contender.num_envs / speed
        rows.append([contender.name, f"{speed:,.0f}", f"{call:,.1f}", f"{1e9 / speed:,.1f}"])
    header = ["environment", "steps/s", "us a call", "ns an environment step"]
    return Grid("How fast they step", header, rows)


def claims(speeds: dict[str, np.ndarray]) -> list[Claim]:
    """Return the median ratios beside what is promised and hoped for."""
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
    """Measure, show, and write the page."""
    options = BENCHMARK.parse(arguments, quick="seconds rather than minutes; small and rough")
    pace = Pace(5, 0.02) if options.quick else Pace(15, 0.2)
    measured = contenders()
    speeds = speeds_of(measured, pace)
    grids = [claim_grid(claims(speeds), quick=options.quick), speed_grid(measured, speeds)]
    BENCHMARK.publish(options, grids, {"run": str(pace)})


if __name__ == "__main__":
    main()
