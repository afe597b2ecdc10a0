"""The speed of a replay buffer on a torch device, compared with copying each batch to the device.

For example:

    python -m benchmarks.replay_gpu --quick             a short test
    python -m benchmarks.replay_gpu --device cuda       some minutes

**Stored data** are those of [the comparison with other buffers](replay.md). The reward function accepts
arrays and tensors.

**Measurements.** *On the device*: `sample(n)` of a buffer with `device=` and `tensor_functions=True`, which
stores and relabels on the device. The time begins when indices are sampled on the host, and ends with the
last operation on the device. *Copied to the device*: `sample(n)` of a buffer with `device=` only, which
relabels NumPy arrays and copies each batch; the time includes the copy. *Copying on the device* is a lower
bound for *On the device*: the time to copy the rows once, at the rate at which the device copies a block of
1 GiB.

Times are measured as in the [comparison of buffers on the CPU](replay.md), with one thread of the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from benchmarks.replay_buffers.contender import SAMPLED_GOALS, Costs, Sampling
from benchmarks.replay_task import (
    ACTION,
    ACTION_SPACE,
    GOAL,
    HORIZON,
    OBSERVATION,
    OBSERVATION_SPACE,
    TOLERANCE,
    make_episodes,
)
from benchmarks.result_page import Benchmark, Grid
from benchmarks.timing import Timing, Workload, measure, repeat
from her_wrappers import HindsightReplayBuffer

BENCHMARK = Benchmark("replay_gpu", "When is a replay buffer on a GPU faster?", __doc__)
ROW_BYTES = 4 * (2 * (OBSERVATION + 2 * GOAL) + ACTION + 1)
"""Bytes of a row of a batch: two states with their goals, an action and a reward."""

DEVICE_OPTION = {
    "default": "cuda" if torch.cuda.is_available() else "cpu",
    "help": "the device [cuda, or cpu if CUDA is not available]",
}

ON_DEVICE, COPIED, COPY = "on the device", "copied to the device", "copying on the device"


def device_name(device: str) -> str:
    """Return the name of a device for a page."""
    if torch.device(device).type == "cpu":
        return "the CPU"
    return f"{torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda}"


@dataclass(frozen=True)
class Plan:
    """Size of the measurement."""

    stored: int  # transitions in a buffer
    batch_sizes: tuple[int, ...]
    block: int  # bytes that are copied on the device
    timing: Timing


FULL = Plan(1_000_000, tuple(4**i for i in range(4, 11)), 2**30, Timing(turns=9, seconds=0.2))
QUICK = Plan(10_000, (256, 4096), 2**20, Timing(turns=3, seconds=0.01))


def compute_reward(achieved_goal: torch.Tensor, desired_goal: torch.Tensor, info: object) -> torch.Tensor:
    """Return 0 within the tolerance and -1 outside, (B, G), (B, G) -> (B,), for tensors and arrays."""
    apart = achieved_goal - desired_goal
    return -1.0 * ((apart * apart).sum(-1) > TOLERANCE**2)


def make_buffer(stored: int, device: str | None, *, tensor_functions: bool) -> HindsightReplayBuffer:
    """Return a full buffer."""
    buffer = HindsightReplayBuffer(
        OBSERVATION_SPACE,
        ACTION_SPACE,
        buffer_size=stored,
        compute_reward=compute_reward,
        n_sampled_goal=SAMPLED_GOALS,
        termination="keep",
        seed=0,
        device=device,
        tensor_functions=tensor_functions,
    )
    episodes = make_episodes(100)
    for _ in range(stored // (HORIZON * len(episodes))):
        buffer.add_episodes(episodes)
    return buffer


def measure_all(plan: Plan, device: str) -> Costs:
    """Return the seconds per batch of each measurement in each turn, (turns,)."""
    there, here = (make_buffer(plan.stored, device, tensor_functions=each) for each in (True, False))
    block = torch.ones(plan.block, dtype=torch.uint8, device=device)
    target = torch.empty_like(block)
    on_cuda = torch.device(device).type == "cuda"
    finish = partial(torch.cuda.synchronize, device) if on_cuda else lambda: None
    copying = repeat(lambda: target.copy_(block), finish)
    workloads: dict[Sampling, Workload] = {Sampling(COPY, plan.stored, 0): copying}
    for size in plan.batch_sizes:
        for name, buffer in ((ON_DEVICE, there), (COPIED, here)):
            sample = partial(buffer.sample, size)
            workloads[Sampling(name, plan.stored, size)] = repeat(sample, finish)
    return measure(workloads, plan.timing)


def grid(plan: Plan, costs: Costs) -> Grid:
    """Return the table of times and their ratios for each batch size."""
    rate = plan.block / costs[Sampling(COPY, plan.stored, 0)] / ROW_BYTES
    header = ["batch", f"{ON_DEVICE} [us]", "[M transitions/s]", f"{COPIED} [us]", "[M transitions/s]"]
    rows = []
    for size in plan.batch_sizes:
        there, copied = (costs[Sampling(name, plan.stored, size)] for name in (ON_DEVICE, COPIED))
        floor = size / rate
        cells = [f"{1e6 * np.median(there):,.0f}", f"{1e-6 * size / np.median(there):,.2f}"]
        cells += [f"{1e6 * np.median(copied):,.0f}", f"{1e-6 * size / np.median(copied):,.2f}"]
        times = [f"{np.median(copied / there):.2f}", f"{np.median(there / floor):,.1f}"]
        rows.append([f"{size:,}", *cells, *times])
    title = f"Batches of {plan.stored:,} transitions"
    return Grid(title, [*header, "times as fast", f"time relative to {COPY}"], rows)


def answer(plan: Plan, costs: Costs) -> str:
    """Return the batch sizes for which a buffer on the device is faster, for the page."""
    gains = {}
    for size in plan.batch_sizes:
        copied, there = (costs[Sampling(name, plan.stored, size)] for name in (COPIED, ON_DEVICE))
        gains[size] = float(np.median(copied / there))
    first = next((size for size, gain in gains.items() if gain > 1), None)
    best = max(gains, key=lambda size: gains[size])
    if first is None:
        return "For no measured batch is a buffer on the device faster than copied batches."
    return (
        f"With batches of {first:,} transitions or more, a buffer on the GPU is faster than one whose "
        f"batches are copied to the GPU: {gains[first]:.2f} times as fast with {first:,}, and up to "
        f"{gains[best]:.1f} times with {best:,}."
    )


CAVEAT = "**These numbers are for the CPU as device**, where NumPy is the better choice. "


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    quick = "a short, inaccurate measurement: seconds instead of minutes"
    options = BENCHMARK.parse(arguments, quick=quick, device=DEVICE_OPTION)
    plan = QUICK if options.quick else FULL
    torch.set_num_threads(1)
    costs = measure_all(plan, options.device)
    rate = plan.block / np.median(costs[Sampling(COPY, plan.stored, 0)])
    facts = {
        "device": device_name(options.device),
        "run": str(plan.timing),
        "copying on the device": f"{rate / 1e9:,.1f} GB are copied per second; "
        f"a row of a batch has {ROW_BYTES} bytes",
    }
    BENCHMARK.publish(
        options, CAVEAT * (options.device == "cpu") + answer(plan, costs), [grid(plan, costs)], facts
    )


if __name__ == "__main__":
    main()
