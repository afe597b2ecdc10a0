"""The time of sampling a batch and updating the agent, on the CPU, on a GPU, and there in CUDA graphs.

For example:

    python -m benchmarks.agents_gpu --quick             a short test
    python -m benchmarks.agents_gpu --device cuda       about three minutes

The measured work is to sample a batch from the replay buffer, to update the agent with it, and to add up the
losses. An agent is named by its algorithm, the units of its hidden layers, and its batch size. The time on
the CPU is that with the best number of threads. On the GPU, batches are copied from the host; *simulator*
means a `DeviceReplayBuffer` of 4,096 environments instead, from which two updates share one sample. *Graph*
means that the update, and sampling with a simulator, is a CUDA graph. *Kernels* is the sum of the times of
all kernels, the lower bound for a graph. The last column is the time on the CPU divided by the shortest time
on the GPU. For comparison: the fastest published variant of SAC in LeanRL makes 725 whole steps, each with an
update, in a second, which is 1,379 microseconds.

The buffer has 100,000 transitions of random walks. *Images* are episodes of BitFlippingImage with 5 bits and
36 x 36 pixels. Times are wall-clock times, until the device has finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import gymnasium as gym
import numpy as np
import torch

import her_envs
from benchmarks.replay_buffers.ours import Ours
from benchmarks.replay_gpu import DEVICE_OPTION, device_name, filled
from benchmarks.replay_task import make_episodes, record_episodes
from benchmarks.result_page import Benchmark, Grid
from benchmarks.timing import Timing, Workload, measure
from her_agents.algorithms.registry import ALGORITHMS
from her_agents.training.config import Config
from her_agents.training.logs import Meter
from her_agents.training.updates import Learner
from her_wrappers import DeviceReplayBuffer, HindsightReplayBuffer

gym.register_envs(her_envs)

BENCHMARK = Benchmark("agents_gpu", "When does a GPU make updates faster?", __doc__)
FULL, QUICK = Timing(turns=9, seconds=0.2), Timing(turns=2, seconds=0.02)
STORED = 100_000
DEFAULT = (64, 64, 64)

GPU, GRAPH, KERNELS = "GPU", "GPU, graph", "kernels"
NUM_ENVS, STEPS_PER_ENV = 4_096, 25  # of the simulator


@dataclass(frozen=True)
class Case:
    """An agent to measure, and the size and content of its batches."""

    algo: str
    hidden: tuple[int, ...]  # units of each layer
    batch_size: int
    images: bool = False  # as observations and goals
    simulator: bool = False  # whether the buffer is on the device

    def __str__(self) -> str:
        layers = " x ".join(map(str, self.hidden))
        kinds = ", images" * self.images + ", simulator" * self.simulator
        return f"{self.algo}, {layers}, batches of {self.batch_size:,}{kinds}"


CASES = (
    Case("sac", DEFAULT, 128),
    Case("sac", (256, 256), 256),
    Case("sac", (256, 256), 256, simulator=True),
    Case("sac", (256, 256), 2048),
    Case("sac", (1024, 1024, 1024), 1024),
    Case("td3", (256, 256), 256),
    Case("tqc", (512, 512, 512), 512),
    Case("dqn", (256,), 128, images=True),
)


def make_buffer(case: Case, device: str) -> HindsightReplayBuffer | DeviceReplayBuffer:
    """Return a buffer with episodes."""
    if case.images:
        env = gym.make("her_envs/BitFlippingImage-v0", n_bits=5)
        buffer = HindsightReplayBuffer.for_env(env, seed=0)
        buffer.add_episodes(record_episodes(env, 200))
        return buffer
    if case.simulator:
        return filled(NUM_ENVS, STEPS_PER_ENV, device)[0]
    buffer = Ours(STORED).buffer
    for _ in range(STORED // 5_000):
        buffer.add_episodes(make_episodes(100))  # of 50 steps
    return buffer


def workload(case: Case, name: str, device: str) -> Workload:
    """Return the workload; ``name`` is a number of CPU threads, or a variant on the GPU."""
    on_gpu = not name.isdigit()
    used = device if on_gpu else "cpu"
    buffer = make_buffer(case, used)
    agent = ALGORITHMS[case.algo](
        buffer.observation_space,
        buffer.action_space,
        hidden=case.hidden,
        device=used,
    )
    config = Config(
        env="random walks",
        batch_size=case.batch_size,
        on_device=case.simulator,
        num_envs=NUM_ENVS,
        updates_per_step=2 / NUM_ENVS,
        updates_in_graph="always" if name == GRAPH else "never",
        clip_targets=False,
    )
    learner = Learner(agent, buffer, config, Meter())

    def run(calls: int) -> None:
        torch.set_num_threads(1 if on_gpu else int(name))
        for _ in range(calls):
            learner()
        if torch.device(used).type == "cuda":
            torch.cuda.synchronize(used)

    return Workload(run, units=learner.updates_per_call)


def kernel_time(case: Case, device: str) -> float:
    """Return the sum of the times of all kernels of a sample and an update [s]; NaN on the CPU."""
    if torch.device(device).type != "cuda":
        return float("nan")
    work = workload(case, GPU, device)
    work.run(10)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        work.run(20)
    total = sum(event.self_device_time_total for event in profile.key_averages())
    return float(total) / 20 / work.units / 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(arguments, quick="two short turns", device=DEVICE_OPTION)
    timing = QUICK if options.quick else FULL
    cores = torch.get_num_threads()
    threads = [str(count) for count in (1, 2, 4, 8) if count <= cores]
    torch.set_flush_denormal(True)  # few episodes lead to gradients so small that they take longer
    has_graphs = torch.device(options.device).type == "cuda"
    measured = [*threads, GPU, *[GRAPH] * has_graphs]
    rows, gains = [], {}
    for case in CASES:
        costs = measure({name: workload(case, name, options.device) for name in measured}, timing)
        medians = {name: 1e6 * float(np.median(costs[name])) for name in measured}
        cpu = min(threads, key=lambda name: medians[name])
        best = medians[cpu] / min(medians[name] for name in measured[len(threads) :])
        gains[best] = case
        medians[KERNELS] = 1e6 * kernel_time(case, options.device)
        columns = [GPU, GRAPH, KERNELS]
        texts = [
            f"{medians[name]:,.0f}" if medians.get(name, nan) > 0 else "not measured" for name in columns
        ]
        rows.append([str(case), f"{medians[cpu]:,.0f}", *texts, f"{best:.2f}"])
    header = ["agent", "CPU", GPU, GRAPH, KERNELS, "times as fast as the CPU"]
    grids = [Grid("Microseconds for a batch and an update", header, rows)]
    least, most = min(gains), max(gains)
    answer = f"On the GPU, sampling a batch and updating the agent is {least:.1f} times ({gains[least]}) to "
    answer += f"{most:.1f} times ({gains[most]}) as fast as on the CPU."
    BENCHMARK.publish(options, answer, grids, {"device": device_name(options.device), "run": str(timing)})


if __name__ == "__main__":
    main()
