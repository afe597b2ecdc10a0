"""The time of one update of each agent, and the share of it that is spent outside of the learning step.

For example:

    python -m benchmarks.agents --quick          a short test
    python -m benchmarks.agents                  about two minutes

The learning step is the forward passes of the networks and the target networks, losses with the weights of
the batch, backward passes, and optimizer steps. An update also converts the batch, updates the statistics of
the inputs, normalizes the inputs, and updates the target networks; for the learning step alone, the network
inputs are computed before the measurement, and target networks are not updated. Networks and optimizers are
those of each agent's defaults. A batch has 128 transitions: of BitFlipping with 10 bits for DQN, of PointPush
for the other agents. Numbers are processor time on one thread. The table shows the lowest of all turns, since
other programs use the machine too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import gymnasium as gym
import torch

import her_envs
from benchmarks.replay_task import record_episodes
from benchmarks.result_page import Benchmark, Grid, at_most, requirement_grid
from benchmarks.timing import Timing, Workload, measure, repeat
from her_agents.algorithms import ALGORITHMS
from her_wrappers import HindsightReplayBuffer

gym.register_envs(her_envs)

BENCHMARK = Benchmark("agents", "The cost of an update of an agent", __doc__)
BATCH_SIZE = 128
EPISODES = 100
FULL, QUICK = Timing(turns=100, seconds=0.05), Timing(turns=2, seconds=0.02)


def make_works(algo: str) -> dict[tuple[str, str], Workload]:
    """Return two workloads of an algorithm: the update of its agent, and the learning step alone."""
    env = gym.make("her_envs/BitFlipping-v0" if algo == "dqn" else "her_envs/PointPush-v0")
    buffer = HindsightReplayBuffer.for_env(env, gamma=0.98, seed=0)
    buffer.add_episodes(record_episodes(env, EPISODES))
    batch = buffer.sample(BATCH_SIZE)
    agent, learner = (ALGORITHMS[algo](env.observation_space, env.action_space) for _ in range(2))
    # Parts of the update are replaced from outside, so that the learning step is not written twice.
    inputs = learner._inputs.of_batch(batch)  # noqa: SLF001
    learner._inputs.of_batch = lambda _: inputs  # type: ignore[method-assign] # noqa: SLF001
    learner._target_update_interval = sys.maxsize  # noqa: SLF001
    tensors = batch.to_torch()
    works = {"update": lambda: agent.update(batch), "learning step": lambda: learner.update(tensors)}
    return {(algo, name): repeat(work) for name, work in works.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(arguments, quick="two short turns")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # updates with one batch lead to gradients so small that they take longer
    timing = QUICK if options.quick else FULL
    rows, requirements = [], []
    for algo in ALGORITHMS:
        seconds = measure(make_works(algo), timing, time.thread_time)
        update, step = (1e6 * seconds[algo, name].min() for name in ("update", "learning step"))
        rows.append([algo, f"{update:.0f}", f"{step:.0f}", f"{update / step:.2f}"])
        requirements.append(
            at_most(f"{algo}: time of an update / time of the learning step", 1.3, update / step)
        )
    grids = [
        requirement_grid(requirements, quick=options.quick),
        Grid("Microseconds", ["agent", "update", "learning step", "ratio"], rows),
    ]
    BENCHMARK.publish(
        options, grids, {"run": f"lowest of {timing.turns} turns of about {timing.seconds:g} s each"}
    )


if __name__ == "__main__":
    main()
