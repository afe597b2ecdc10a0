"""The time of sampling a batch and updating the agent, on the CPU and on a GPU.

For example:

    python -m benchmarks.agents_gpu --quick             a short test
    python -m benchmarks.agents_gpu --device cuda       about three minutes

The measured work is to sample a batch from the replay buffer, and to update the agent with this batch. The
names of the agents contain algorithm, units of the hidden layers, and batch size. If the agent is on a GPU,
batches are copied to the GPU. The last column is a ratio: the time on the CPU, with the best number of
threads, divided by the shortest time on the GPU.

**Data.** The buffer has 100,000 transitions of random walks of 50 steps, with 25-float observations, 3-float
goals and 4-float actions. For the agent with images, it has episodes of BitFlippingImage with 5 bits and
36 x 36 pixels.

**Method.** Times are wall-clock times, until the device has finished. The variants of each row run in turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch

import her_envs
from benchmarks.replay_buffers.ours import Ours
from benchmarks.replay_task import make_episodes, record_episodes
from benchmarks.result_page import Benchmark, Grid
from benchmarks.timing import Timing, Workload, measure
from her_agents.algorithms.registry import ALGORITHMS
from her_wrappers import HindsightReplayBuffer

gym.register_envs(her_envs)

BENCHMARK = Benchmark("agents_gpu", "When does a GPU make updates faster?", __doc__)
FULL, QUICK = Timing(turns=9, seconds=0.2), Timing(turns=2, seconds=0.02)
STORED = 100_000
DEFAULT = (64, 64, 64)

GPU, ROUNDED = "GPU", "GPU, bf16"
DEVICE_OPTION = {
    "default": "cuda" if torch.cuda.is_available() else "cpu",
    "help": "the device [cuda, or cpu if CUDA is not available]",
}


@dataclass(frozen=True)
class Case:
    """An agent to measure, and the size and content of its batches."""

    algo: str
    hidden: tuple[int, ...]  # units of each layer
    batch_size: int
    images: bool = False  # as observations and goals

    def __str__(self) -> str:
        layers = " x ".join(map(str, self.hidden))
        return f"{self.algo}, {layers}, batches of {self.batch_size:,}{', images' * self.images}"


CASES = (
    Case("sac", DEFAULT, 128),
    Case("sac", (256, 256), 256),
    Case("sac", (256, 256), 2048),
    Case("sac", (1024, 1024, 1024), 1024),
    Case("td3", (256, 256), 256),
    Case("tqc", (512, 512, 512), 512),
    Case("dqn", (256,), 128, images=True),
)


def device_name(device: str) -> str:
    """Return the name of a device for a page."""
    if torch.device(device).type == "cpu":
        return "the CPU"
    return f"{torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda}"


def make_buffer(case: Case) -> HindsightReplayBuffer:
    """Return a buffer with episodes."""
    if case.images:
        env = gym.make("her_envs/BitFlippingImage-v0", n_bits=5)
        buffer = HindsightReplayBuffer.for_env(env, seed=0)
        buffer.add_episodes(record_episodes(env, 200))
        return buffer
    buffer = Ours(STORED).buffer
    for _ in range(STORED // 5_000):
        buffer.add_episodes(make_episodes(100))  # of 50 steps
    return buffer


def workload(case: Case, name: str, device: str) -> Workload:
    """Return the workload; ``name`` is a number of CPU threads, or the precision on the GPU."""
    on_device = name in {GPU, ROUNDED}
    buffer = make_buffer(case)
    agent = ALGORITHMS[case.algo](
        buffer.observation_space,
        buffer.action_space,
        hidden=case.hidden,
        device=device if on_device else "cpu",
        precision="bf16" if name == ROUNDED else "float32",
    )

    def run(calls: int) -> None:
        torch.set_num_threads(1 if on_device else int(name))
        for _ in range(calls):
            agent.update(buffer.sample(case.batch_size))
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize(device)

    return Workload(run)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(arguments, quick="two short turns", device=DEVICE_OPTION)
    timing = QUICK if options.quick else FULL
    cores = torch.get_num_threads()
    threads = [str(count) for count in (1, 2, 4, 8) if count <= cores]
    torch.set_flush_denormal(True)  # few episodes lead to gradients so small that they take longer
    columns = [*threads, GPU, ROUNDED]
    rows, gains = [], {}
    for case in CASES:
        costs = measure({name: workload(case, name, options.device) for name in columns}, timing)
        medians = [1e6 * float(np.median(costs[name])) for name in columns]
        best = min(medians[: len(threads)]) / min(medians[len(threads) :])
        gains[best] = case
        rows.append([str(case), *(f"{value:,.0f}" for value in medians), f"{best:.2f}"])
    header = ["agent", *(f"CPU, {count} threads" for count in threads), GPU, ROUNDED]
    grids = [Grid("Microseconds for a batch and an update", [*header, "times as fast as the CPU"], rows)]
    least, most = min(gains), max(gains)
    answer = f"On the GPU, sampling a batch and updating the agent is {least:.1f} to {most:.1f} times as "
    answer += f"fast as on the CPU. The lowest ratio is for {gains[least]}; the highest is for {gains[most]}."
    BENCHMARK.publish(options, answer, grids, {"device": device_name(options.device), "run": str(timing)})


if __name__ == "__main__":
    main()
