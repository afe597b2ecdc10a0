"""What recording costs per transition, beside Stable-Baselines3 and Minari, in one run.

For example:

    python -m benchmarks.recording --quick             to see that it runs
    python -m benchmarks.recording --out a_page.md     some minutes

Observations of 25 floats, goals of 3, actions of 4; episodes are cut off at the horizon. Environments
hand out arrays made beforehand; what the same calls cost without anybody recording is measured in the same
turn and subtracted. Buffers are filled before, so that adding evicts. All contenders run in turn, again and
again; ratios are taken within one turn, so that a busy machine slows both sides; tables give medians.
Python's garbage collector rests meanwhile.

Peers: `HerReplayBuffer.add` of Stable-Baselines3, called with arrays made beforehand: the loop around it is
not counted. Minari's `DataCollector`, which writes episodes to files; it wants an environment of its own, see
benchmarks/requirements-recording.txt, and is left out where it is not installed.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3 import HerReplayBuffer

from benchmarks.array_envs import Replay, VectorReplay
from benchmarks.benchmark import Benchmark
from benchmarks.replay_task import ACTION, ACTION_SPACE, OBSERVATION_SPACE, never_reached
from benchmarks.timing import Pace, Work, measure
from her_agents.studies.result_page import Claim, Grid, at_least, at_most, claim_grid
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, VectorEpisodeRecorder

NUM_ENVS = 4096
BENCHMARK = Benchmark("recording", "What recording costs", __doc__, ("stable-baselines3", "minari"))
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
    action = np.zeros(ACTION, np.float32)

    def run(episodes: int) -> None:
        for _ in range(episodes):
            env.reset()
            truncated = False
            while not truncated:
                truncated = env.step(action)[3]

    return run


def vector(env: gym.vector.VectorEnv[Any, Any, Any], horizon: int) -> Callable[[int], None]:
    """Return what runs episodes of a vector environment that resets by itself."""
    actions = np.zeros((env.num_envs, ACTION), np.float32)
    env.reset()

    def run(episodes: int) -> None:
        for _ in range(episodes * (horizon + 1)):
            env.step(actions)

    return run


def sb3(num_envs: int, horizon: int, size: int) -> Callable[[int], None]:
    """Return what adds episodes to Stable-Baselines3's buffer."""
    env: Any = VectorReplay(num_envs, horizon)
    buffer = HerReplayBuffer(size, OBSERVATION_SPACE, ACTION_SPACE, env=env, n_envs=num_envs)
    observations, actions, rewards = (
        env.reset()[0],
        np.zeros((num_envs, ACTION), np.float32),
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
        OBSERVATION_SPACE, ACTION_SPACE, buffer_size=size, compute_reward=never_reached, seed=0
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


def cost_of(contenders: list[Contender], pace: Pace) -> dict[str, np.ndarray]:
    """Return the nanoseconds that each transition costs each contender in each turn, (turns,)."""
    works = {each.name: Work(each.run, parts=each.transitions) for each in contenders}
    bare = {
        _without(each): Work(each.bare, parts=each.transitions)
        for each in contenders
        if each.bare is not None
    }
    costs = measure(works | bare, pace)
    return {each.name: 1e9 * (costs[each.name] - costs.get(_without(each), 0)) for each in contenders}


def _without(contender: Contender) -> str:
    return f"{contender.name}, nobody recording"


def fill(contenders: list[Contender], size: int) -> None:
    """Let each record as many transitions as a buffer holds."""
    for contender in contenders:
        if contender.name != MINARI:
            contender.run(-(-size // contender.transitions))


def cost_grid(costs: dict[str, np.ndarray]) -> Grid:
    """Return what a transition costs each contender."""
    rows = []
    for name, values in costs.items():
        cost = float(np.median(values))
        rows.append([name, f"{cost:,.0f}", f"{1e9 / cost:,.0f}"])
    if MINARI not in costs:
        rows.append([MINARI, "not installed", "pip install -r benchmarks/requirements-recording.txt"])
    return Grid("What a transition costs", ["recorder", "ns a transition", "transitions/s"], rows)


def claims(costs: dict[str, np.ndarray]) -> list[Claim]:
    """Return what is promised beside what was measured."""
    ratio = float(np.median(costs[OURS] / costs[SB3]))
    promises = [at_most(f"cost of {OURS} / {SB3}", 0.4, ratio, hoped=0.3)]
    for horizon, promised, hoped in ((50, 5, 20), (10, 2, None)):
        name = vector_name(horizon)
        speed = 1e3 / float(np.median(costs[name]))
        promises.append(at_least(f"{name}, million transitions/s", promised, speed, hoped=hoped))
    return promises


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, show, and write the page."""
    options = BENCHMARK.parse(arguments, quick="seconds rather than minutes; small and rough")
    pace, size = (Pace(3, 0.1), 300_000) if options.quick else (Pace(15, 0.5), 1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        contenders = [*single_contenders(size // 10), *vector_contenders(size), *minari_contenders(folder)]
        fill(contenders, size)
        costs = cost_of(contenders, pace)
    grids = [claim_grid(claims(costs), quick=options.quick), cost_grid(costs)]
    BENCHMARK.publish(options, grids, {"run": f"{pace}; buffers of {size:,} transitions"})


if __name__ == "__main__":
    main()
