"""The cost of recording per transition, compared with Stable-Baselines3 and Minari in the same run.

For example:

    python -m benchmarks.recording --quick             a short test
    python -m benchmarks.recording --out a_page.md     some minutes

In rows with *alone*, the recorder discards the episodes. Environments return precomputed arrays; the time of
the same steps without a recorder is subtracted. `HerReplayBuffer.add` of Stable-Baselines3 is called in a
loop with such arrays, so nothing is subtracted there. A horizon of 10 means episodes of 10 steps.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from stable_baselines3 import HerReplayBuffer

from benchmarks.array_envs import ArrayEnv, ArrayVectorEnv
from benchmarks.replay_task import ACTION, ACTION_SPACE, OBSERVATION_SPACE, never_reached
from benchmarks.result_page import Benchmark, Grid, Requirement, at_least, at_most, in_words
from benchmarks.timing import Timing, Workload, measure
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, VectorEpisodeRecorder

NUM_ENVS = 4096
BENCHMARK = Benchmark(
    "recording", "What does recording a step cost?", __doc__, ("stable-baselines3", "minari")
)
OURS, SB3, MINARI = "EpisodeRecorder into buffer", "SB3 HerReplayBuffer.add", "Minari DataCollector"


def vector_name(horizon: int) -> str:
    """Return the name of our recorder for vector environments in the table."""
    return f"VectorEpisodeRecorder x{NUM_ENVS} into buffer, horizon {horizon}"


class Contender(NamedTuple):
    """A recorder to measure: functions that run a given number of episodes."""

    transitions: int  # in one episode of all environments
    run: Callable[[int], None]  # runs and records episodes
    bare: Callable[[int], None] | None = None  # runs them without a recorder; None if nothing is stepped


def single(env: gym.Env[Any, Any]) -> Callable[[int], None]:
    """Return a function that runs episodes of one environment."""
    action = np.zeros(ACTION, np.float32)

    def run(episodes: int) -> None:
        for _ in range(episodes):
            env.reset()
            truncated = False
            while not truncated:
                truncated = env.step(action)[3]

    return run


def vector(env: gym.vector.VectorEnv[Any, Any, Any], horizon: int) -> Callable[[int], None]:
    """Return a function that runs episodes of a vector environment with autoreset."""
    actions = np.zeros((env.num_envs, ACTION), np.float32)
    env.reset()

    def run(episodes: int) -> None:
        for _ in range(episodes * (horizon + 1)):
            env.step(actions)

    return run


def sb3(num_envs: int, horizon: int, size: int) -> Callable[[int], None]:
    """Return a function that adds episodes to the buffer of Stable-Baselines3."""
    env: Any = ArrayVectorEnv(num_envs, horizon)
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
    """Return a `HindsightReplayBuffer` of ``size`` transitions."""
    return HindsightReplayBuffer(
        OBSERVATION_SPACE, ACTION_SPACE, buffer_size=size, compute_reward=never_reached, seed=0
    )


def discard(episodes: object) -> None:
    """Do nothing: a sink that discards episodes."""


class NullSink:
    """A sink that discards episodes."""

    add_episodes = staticmethod(discard)


def contenders(size: int) -> dict[str, Contender]:
    """Return the recorders to compare by name; their replay buffers have room for ``size`` transitions."""
    bare = single(ArrayEnv(50))
    made = {
        "EpisodeRecorder alone": Contender(50, single(EpisodeRecorder(ArrayEnv(50), discard)), bare),
        OURS: Contender(50, single(EpisodeRecorder(ArrayEnv(50), our_buffer(size // 10).add_episode)), bare),
        SB3: Contender(50, sb3(1, 50, size // 10)),
    }
    for horizon in (50, 10):
        transitions, bare = NUM_ENVS * horizon, vector(ArrayVectorEnv(NUM_ENVS, horizon), horizon)
        alone = f"VectorEpisodeRecorder x{NUM_ENVS} alone, horizon {horizon}"
        for name, sink in ((alone, NullSink()), (vector_name(horizon), our_buffer(size))):
            env = VectorEpisodeRecorder(ArrayVectorEnv(NUM_ENVS, horizon), sink)
            made[name] = Contender(transitions, vector(env, horizon), bare)
        name = f"{SB3} x{NUM_ENVS}, horizon {horizon}"
        made[name] = Contender(transitions, sb3(NUM_ENVS, horizon, size))
    for contender in made.values():  # fill the buffers
        contender.run(-(-size // contender.transitions))
    return made


def minari_contender(folder: str) -> dict[str, Contender]:
    """Return Minari's recorder, which writes files to a folder, if it is installed."""
    if any(importlib.util.find_spec(name) is None for name in ("minari", "jax")):  # it imports JAX
        return {}
    os.environ["MINARI_DATASETS_PATH"] = folder
    import minari  # noqa: PLC0415 - needs its own virtual environment

    return {MINARI: Contender(50, single(minari.DataCollector(ArrayEnv(50))), single(ArrayEnv(50)))}


def measure_costs(measured: Mapping[str, Contender], timing: Timing) -> dict[str, np.ndarray]:
    """Return the nanoseconds per transition of each recorder in each turn, (turns,)."""
    workloads = {}
    for name, each in measured.items():
        workloads[name, "recorded"] = Workload(each.run, units=each.transitions)
        if each.bare is not None:
            workloads[name, "bare"] = Workload(each.bare, units=each.transitions)
    costs = measure(workloads, timing)
    return {name: 1e9 * (costs[name, "recorded"] - costs.get((name, "bare"), 0)) for name in measured}


def cost_grid(costs: dict[str, np.ndarray]) -> Grid:
    """Return the table of the median nanoseconds per transition of each contender."""
    rows = []
    for name, values in costs.items():
        rows.append([name, f"{np.median(values):,.0f}"])
    return Grid("Time per transition", ["recorder", "ns per transition"], rows)


def requirements(costs: dict[str, np.ndarray]) -> list[Requirement]:
    """Return the requirements, with the measurements."""
    ratio = float(np.median(costs[OURS] / costs[SB3]))
    found = [at_most(f"time of {OURS} / time of {SB3}", 0.4, ratio)]
    for horizon, bound in ((50, 5), (10, 2)):
        name = vector_name(horizon)
        found.append(at_least(f"{name}, million transitions/s", bound, 1e3 / float(np.median(costs[name]))))
    return found


def answer(costs: dict[str, np.ndarray]) -> str:
    """Return the cost of a step of one environment and of many, for the page."""
    one, many = (float(np.median(costs[name])) for name in (OURS, vector_name(50)))
    return (
        f"Recording a step into the replay buffer takes {one / 1e3:.1f} microseconds, "
        f"{in_words(float(np.median(costs[SB3] / costs[OURS])))} than adding it to Stable-Baselines3's "
        f"buffer. A vector environment with {NUM_ENVS:,} environments is recorded at {1e3 / many:.0f} "
        "million steps per second."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(arguments, quick="a short, inaccurate measurement: seconds instead of minutes")
    timing, size = (Timing(3, 0.1), 300_000) if options.quick else (Timing(15, 0.5), 1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        costs = measure_costs(contenders(size) | minari_contender(folder), timing)
    found = requirements(costs)
    sizes = f"buffers of {size:,} transitions, or of {size // 10:,} for a single environment"
    facts = {"run": f"{timing}; {sizes}"}
    BENCHMARK.publish(options, answer(costs), [cost_grid(costs)], facts, requirements=found)


if __name__ == "__main__":
    main()
