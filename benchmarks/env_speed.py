"""How fast the bundled environments step, against their peers, in one run.

    python -m benchmarks.env_speed [--quick]

Method: all contenders step in turn, again and again, and each ratio is taken within one turn, so that a busy
machine slows both sides; the table gives medians over the turns. A step includes the resets that it causes.
Actions are drawn beforehand. Peers: Stable-Baselines3's BitFlippingEnv alone and in Gymnasium's
SyncVectorEnv, and Gymnasium's own CartPoleVectorEnv.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.envs import BitFlippingEnv

import her_envs

BIT_FLIPPING, POINT_REACH, POINT_MAZE = (
    f"her_envs/{name}-v0" for name in ("BitFlipping", "PointReach", "PointMaze")
)
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


@dataclass(frozen=True)
class Claim:
    """Ours divided by theirs, and what we want it to be.

    Attributes:
        ours: Name of our contender.
        theirs: Name of the peer.
        least: The ratio promised, or None where we only report.
        hoped: The ratio aimed at.
    """

    ours: str
    theirs: str
    least: float | None = None
    hoped: float | None = None


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


CLAIMS = [
    Claim("BitFlipping-v0 native x1024", "SB3 BitFlippingEnv sync x64", least=100, hoped=300),
    Claim("BitFlipping single", "SB3 BitFlippingEnv single", least=1),
    Claim("PointReach-v0 native x4096", "CartPole native x4096", least=2, hoped=4),
    *(
        Claim(f"{env}-v0 native x16384", f"{env}-v0 native x64", least=1)
        for env in ("BitFlipping", "PointReach")
    ),
    # Where we lose, or may.
    Claim("PointPush-v0 native x4096", "CartPole native x4096"),
    Claim("PointMaze-v0 native x4096", "CartPole native x4096"),
    Claim("PointReach single", "SB3 BitFlippingEnv single"),
    Claim("BitFlipping-v0 native x1", "BitFlipping single"),
    Claim("BitFlippingImage-v0 native x1024", "BitFlipping-v0 native x1024"),
]


def measure(measured: list[Contender], turns: int, seconds: float) -> dict[str, np.ndarray]:
    """Return the steps a second of each contender in each turn, (turns,), of about ``seconds`` each."""
    speeds: dict[str, list[float]] = {contender.name: [] for contender in measured}
    calls = {contender.name: _calls_in(contender, seconds) for contender in measured}
    for _ in range(turns):
        for contender in measured:
            elapsed = _time(contender, calls[contender.name])
            speeds[contender.name].append(calls[contender.name] * contender.num_envs / elapsed)
    return {name: np.array(values) for name, values in speeds.items()}


def _calls_in(contender: Contender, seconds: float) -> int:
    calls = 1
    while (elapsed := _time(contender, calls)) < seconds / 4:
        calls *= 2
    return max(1, round(calls * seconds / elapsed))


def _time(contender: Contender, calls: int) -> float:
    start = time.perf_counter()
    contender.run(calls)
    return time.perf_counter() - start


def speed_table(measured: list[Contender], speeds: dict[str, np.ndarray]) -> Table:
    """Show the median speed of each contender."""
    table = Table("environment", "steps/s", "us a call", "ns an environment step")
    for contender in measured:
        speed = float(np.median(speeds[contender.name]))
        call = 1e6 * contender.num_envs / speed
        table.add_row(contender.name, f"{speed:,.0f}", f"{call:,.1f}", f"{1e9 / speed:,.1f}")
    return table


def claim_table(speeds: dict[str, np.ndarray]) -> Table:
    """Show the median ratios beside what was promised and hoped for."""
    table = Table("ours", "theirs", "ratio", "at least", "aim", "")
    for claim in CLAIMS:
        ratio = float(np.median(speeds[claim.ours] / speeds[claim.theirs]))
        verdict = "" if claim.least is None else "kept" if ratio >= claim.least else "[red]NOT KEPT[/red]"
        wanted = ("" if value is None else f"{value:g}" for value in (claim.least, claim.hoped))
        table.add_row(claim.ours, claim.theirs, f"{ratio:.2f}", *wanted, verdict)
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="seconds rather than minutes; small and rough")
    quick = parser.parse_args().quick
    turns, seconds = (5, 0.02) if quick else (15, 0.2)
    console = Console()
    console.print(f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}")
    console.print(
        ", ".join(f"{name} {version(name)}" for name in ("numpy", "gymnasium", "stable-baselines3"))
    )
    console.print(f"medians of {turns} turns, about {seconds:g} s each")
    measured = contenders()
    speeds = measure(measured, turns, seconds)
    console.print(speed_table(measured, speeds))
    console.print(claim_table(speeds))


if __name__ == "__main__":
    main()
