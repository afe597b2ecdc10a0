"""What recording costs per transition, beside Stable-Baselines3 and Minari, in one run.

    python -m benchmarks.recording [--quick] [--out docs/results/recording.md]

Method: observations of 25 floats, goals of 3, actions of 4; episodes are cut off at the horizon. Environments
hand out arrays made beforehand; what the same calls cost without anybody recording is measured in the same
turn and subtracted. Buffers are filled before, so that adding evicts. All contenders run in turn, again and
again; ratios are taken within one turn, so that a busy machine slows both sides; tables give medians.

Peers: `HerReplayBuffer.add` of Stable-Baselines3, called with arrays made beforehand: the loop around it is
not counted. Minari's `DataCollector`, which writes episodes to files; it wants an environment of its own, see
benchmarks/requirements-recording.txt, and is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table
from stable_baselines3 import HerReplayBuffer

from benchmarks.array_envs import ACTIONS, OBSERVATIONS, Replay, VectorReplay, never_reached
from examples.results import machine, versions
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, VectorEpisodeRecorder

NUM_ENVS = 4096
PACKAGES = ("torch", "numpy", "gymnasium", "stable-baselines3", "minari")
OURS, SB3, MINARI = "EpisodeRecorder into buffer", "SB3 HerReplayBuffer.add", "Minari DataCollector"


def vector_name(horizon: int) -> str:
    """Return the name of our vector contender."""
    return f"VectorEpisodeRecorder x{NUM_ENVS} into buffer, horizon {horizon}"


@dataclass(frozen=True)
class Contender:
    """Something that records.

    Attributes:
        name: What it is.
        transitions: How many one episode of all its environments has.
        run: Runs so many episodes.
        bare: Runs as many episodes with nobody recording; None where there is no environment.
    """

    name: str
    transitions: int
    run: Callable[[int], None]
    bare: Callable[[int], None] | None = None


def single(env: gym.Env[Any, Any]) -> Callable[[int], None]:
    """Return what runs episodes of one environment."""
    action = np.zeros(4, np.float32)

    def run(episodes: int) -> None:
        for _ in range(episodes):
            env.reset()
            truncated = False
            while not truncated:
                truncated = env.step(action)[3]

    return run


def vector(env: gym.vector.VectorEnv[Any, Any, Any], horizon: int) -> Callable[[int], None]:
    """Return what runs episodes of a vector environment that resets by itself."""
    actions = np.zeros((env.num_envs, 4), np.float32)
    env.reset()

    def run(episodes: int) -> None:
        for _ in range(episodes * (horizon + 1)):
            env.step(actions)

    return run


def sb3(num_envs: int, horizon: int, size: int) -> Callable[[int], None]:
    """Return what adds episodes to Stable-Baselines3's buffer."""
    env: Any = VectorReplay(num_envs, horizon)
    buffer = HerReplayBuffer(size, OBSERVATIONS, ACTIONS, env=env, n_envs=num_envs)
    observations, actions, rewards = (
        env.reset()[0],
        np.zeros((num_envs, 4), np.float32),
        np.full(num_envs, -1.0),
    )
    flags, infos = (np.zeros(num_envs, bool), np.ones(num_envs, bool)), [{} for _ in range(num_envs)]

    def run(episodes: int) -> None:
        for t in range(episodes * horizon):
            done = flags[t % horizon == horizon - 1]
            buffer.add(observations, observations, actions, rewards, done, infos)

    return run


def our_buffer(size: int) -> HindsightReplayBuffer:
    """Make our buffer."""
    return HindsightReplayBuffer(
        OBSERVATIONS, ACTIONS, buffer_size=size, compute_reward=never_reached, seed=0
    )


def ignore(episodes: object) -> None:
    """Take episodes and forget them."""


class Ignore:
    """Takes many episodes and forgets them."""

    add_episodes = staticmethod(ignore)


def single_contenders(size: int) -> list[Contender]:
    """Make what records one environment, with episodes of 50 steps."""
    bare = single(Replay(50))
    return [
        Contender("EpisodeRecorder alone", 50, single(EpisodeRecorder(Replay(50), ignore)), bare),
        Contender(OURS, 50, single(EpisodeRecorder(Replay(50), our_buffer(size).add_episode)), bare),
        Contender(SB3, 50, sb3(1, 50, size)),
    ]


def vector_contenders(size: int) -> list[Contender]:
    """Make what records many environments, with episodes of 50 and of 10 steps."""
    made = []
    for horizon in (50, 10):
        transitions, bare = NUM_ENVS * horizon, vector(VectorReplay(NUM_ENVS, horizon), horizon)
        for name, sink in (
            (f"VectorEpisodeRecorder x{NUM_ENVS} alone, horizon {horizon}", Ignore()),
            (vector_name(horizon), our_buffer(size)),
        ):
            env = VectorEpisodeRecorder(VectorReplay(NUM_ENVS, horizon), sink)
            made.append(Contender(name, transitions, vector(env, horizon), bare))
        name = f"{SB3} x{NUM_ENVS}, horizon {horizon}"
        made.append(Contender(name, transitions, sb3(NUM_ENVS, horizon, size)))
    return made


def minari_contenders(folder: str) -> list[Contender]:
    """Make Minari's recorder, which writes files to a folder, if it is installed."""
    if any(importlib.util.find_spec(name) is None for name in ("minari", "jax")):  # it records by JAX
        return []
    os.environ["MINARI_DATASETS_PATH"] = folder
    import minari  # noqa: PLC0415 - wants an environment of its own

    return [Contender(MINARI, 50, single(minari.DataCollector(Replay(50))), single(Replay(50)))]


def measure(contenders: list[Contender], turns: int, seconds: float) -> dict[str, np.ndarray]:
    """Return the nanoseconds that each transition costs each contender in each turn, (turns,)."""
    costs: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    episodes = {contender.name: _episodes_in(contender, seconds) for contender in contenders}
    for _ in range(turns):
        for contender in contenders:
            count = episodes[contender.name]
            elapsed = _time(contender.run, count) - (_time(contender.bare, count) if contender.bare else 0)
            costs[contender.name].append(1e9 * elapsed / count / contender.transitions)
    return {name: np.array(values) for name, values in costs.items()}


def fill(contenders: list[Contender], size: int) -> None:
    """Let each record as many transitions as a buffer holds."""
    for contender in contenders:
        if contender.name != MINARI:
            contender.run(-(-size // contender.transitions))


def _episodes_in(contender: Contender, seconds: float) -> int:
    episodes = 1
    while (elapsed := _time(contender.run, episodes)) < seconds / 4:
        episodes *= 2
    return max(1, round(episodes * seconds / elapsed))


def _time(run: Callable[[int], None], episodes: int) -> float:
    start = time.perf_counter()
    run(episodes)
    return time.perf_counter() - start


def cost_table(costs: dict[str, np.ndarray]) -> Table:
    """Show what a transition costs each contender."""
    table = Table("recorder", "ns a transition", "transitions/s")
    for name, values in costs.items():
        cost = float(np.median(values))
        table.add_row(name, f"{cost:,.0f}", f"{1e9 / cost:,.0f}")
    if MINARI not in costs:
        table.add_row(MINARI, "not installed", "pip install -r benchmarks/requirements-recording.txt")
    return table


def claim_table(costs: dict[str, np.ndarray]) -> Table:
    """Show the medians of what we promise, beside the promise and the aim."""
    table = Table("claim", "measured", "promised", "aim", "")
    ratio = float(np.median(costs[OURS] / costs[SB3]))
    kept = "kept" if ratio <= 0.6 else "[red]NOT KEPT[/red]"
    table.add_row(f"cost of {OURS} / {SB3}", f"{ratio:.2f}", "<= 0.6", "0.3", kept)
    for horizon, least, aim in ((50, 5, "20"), (10, 2, "")):
        speed = 1e3 / float(np.median(costs[vector_name(horizon)]))
        kept = "kept" if speed >= least else "[red]NOT KEPT[/red]"
        name = f"{vector_name(horizon)}, million transitions/s"
        table.add_row(name, f"{speed:.1f}", f">= {least}", aim, kept)
    return table


def markdown(table: Table) -> str:
    """Return a table as Markdown."""
    columns = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    rows = ["| " + " | ".join(row) + " |" for row in zip(*columns, strict=True)]
    return "\n".join([rows[0], "|---" * len(columns) + "|", *rows[1:]])


def publish(title: str, method: str, what: str, tables: Sequence[Table], out: Path | None) -> None:
    """Print the tables, and write them to a file if there is to be one."""
    measured_by = f"{machine()}, {versions(PACKAGES)}"
    Console().print(measured_by, what, *tables, sep="\n")
    if out:
        text = "\n\n".join([title, method.strip(), measured_by, what, *map(markdown, tables)])
        out.write_text(text.replace("[red]", "").replace("[/red]", "") + "\n")


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="seconds rather than minutes; small and rough")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the tables to this file, too")
    options = parser.parse_args()
    turns, seconds, size = (3, 0.1, 300_000) if options.quick else (15, 0.5, 1_000_000)
    what = f"medians of {turns} turns, about {seconds:g} s each; buffers of {size:,} transitions"
    with tempfile.TemporaryDirectory() as folder:
        contenders = [*single_contenders(size // 10), *vector_contenders(size), *minari_contenders(folder)]
        fill(contenders, size)
        costs = measure(contenders, turns, seconds)
    tables = [cost_table(costs), claim_table(costs)]
    publish("# What recording costs", __doc__ or "", what, tables, options.out)


if __name__ == "__main__":
    main()
