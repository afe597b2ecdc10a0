"""The replay buffer with its transitions on a torch device, against batches copied there from the host.

For example:

    python -m benchmarks.replay_gpu --quick             to see that it runs
    python -m benchmarks.replay_gpu --device cuda       some minutes
    python -m benchmarks.replay_gpu --out a_page.md     beside it goes a_page.json

**What is stored.** Episodes of 50 steps: 25-float observations, 3-float goals, 4-float actions, all float32;
100 different random walks from seed 0, added again and again until the buffer is full. The reward is
`-(norm(achieved - desired) > 0.05)`, written with operators that arrays and tensors both have.

**What is timed.** *On the device*: `sample(n)` of a buffer with `device=`, from the drawing of its rows on
the host to the last operation on the device. *Copied there*: `sample(n).to_torch(device)` of a buffer without
one, until the copy has arrived. *Copying on the device*: the records of the states before and after each
step, and the goals, read and written once at the rate at which the device copies a block of 1 GiB; no batch
can be quicker.

**How.** One thread on the host. All take turns, with a few batches each before the time begins; ratios are
taken within a turn, and the table gives medians over the turns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.benchmark import Benchmark
from benchmarks.replay_buffers.contender import SAMPLED_GOALS
from benchmarks.replay_task import ACTION_SPACE, HORIZON, OBSERVATION_SPACE, TOLERANCE, make_episodes
from benchmarks.replay_work import Costs, Sampling
from benchmarks.timing import Pace, Work, measure
from her_agents.studies.result_page import Grid
from her_wrappers import HindsightReplayBuffer
from her_wrappers.replay.layout import StepLayout

BENCHMARK = Benchmark("replay_gpu", "The replay buffer on a device", __doc__)
ON_DEVICE, COPIED, COPY = "on the device", "copied there", "copying on the device"


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        stored: Transitions of a buffer.
        batch_sizes: Rows of a batch.
        block: Bytes of the block that is copied on the device.
        pace: How long each is timed.
    """

    stored: int
    batch_sizes: tuple[int, ...]
    block: int
    pace: Pace


FULL = Plan(1_000_000, tuple(4**i for i in range(4, 11)), 2**30, Pace(turns=9, seconds=0.2))
QUICK = Plan(10_000, (256, 4096), 2**20, Pace(turns=3, seconds=0.01))


def compute_reward(achieved_goal: torch.Tensor, desired_goal: torch.Tensor, info: object) -> torch.Tensor:
    """Return 0 within the tolerance and -1 outside: (B, G), (B, G) -> (B,), of arrays too."""
    apart = achieved_goal - desired_goal
    return -1.0 * ((apart * apart).sum(-1) > TOLERANCE**2)


def make_buffer(stored: int, device: str | None) -> HindsightReplayBuffer:
    """Return a full buffer.

    Raises:
        RuntimeError: It does not relabel on its device.
    """
    buffer = HindsightReplayBuffer(
        OBSERVATION_SPACE,
        ACTION_SPACE,
        buffer_size=stored,
        compute_reward=compute_reward,
        n_sampled_goal=SAMPLED_GOALS,
        termination="keep",
        seed=0,
        device=device,
    )
    if buffer.on_device != (device is not None):
        raise RuntimeError(f"transitions are not kept on {device}")
    episodes = make_episodes(100)
    for _ in range(stored // (HORIZON * len(episodes))):
        buffer.add_episodes(episodes)
    return buffer


def measure_all(plan: Plan, device: str) -> Costs:
    """Return the seconds that each takes, in each turn."""
    there, here = (make_buffer(plan.stored, each) for each in (device, None))
    block = torch.ones(plan.block, dtype=torch.uint8, device=device)
    into = torch.empty_like(block)
    works: dict[Sampling, Work] = {Sampling(COPY, plan.stored, 0): _work(lambda: into.copy_(block), device)}
    for size in plan.batch_sizes:
        on_device = Sampling(ON_DEVICE, plan.stored, size)
        works[on_device] = _work(lambda size=size: there.sample(size), device)
        copied = Sampling(COPIED, plan.stored, size)
        works[copied] = _work(lambda size=size: here.sample(size).to_torch(device), device)
    return measure(works, plan.pace)


def _work(act: Callable[[], object], device: str) -> Work:
    """Return the work of doing something so many times, until the device has done it."""

    def run(calls: int) -> None:
        for _ in range(calls):
            act()
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize(device)

    return Work(run)


def bytes_a_row() -> int:
    """Return the bytes of a row of a batch: two records, and two goals."""
    layout = StepLayout.of(OBSERVATION_SPACE, ACTION_SPACE)
    return 2 * layout.record_dtype.itemsize + 2 * layout.goal_dtype.itemsize


def grid(plan: Plan, costs: Costs) -> Grid:
    """Return the table of the results."""
    rate = plan.block / costs[Sampling(COPY, plan.stored, 0)] / bytes_a_row()
    header = ["batch", f"{ON_DEVICE} [us]", "[M transitions/s]", f"{COPIED} [us]", "[M transitions/s]"]
    rows = []
    for size in plan.batch_sizes:
        there, copied = (costs[Sampling(name, plan.stored, size)] for name in (ON_DEVICE, COPIED))
        floor = size / rate
        cells = [f"{1e6 * np.median(there):,.0f}", f"{1e-6 * size / np.median(there):,.2f}"]
        cells += [f"{1e6 * np.median(copied):,.0f}", f"{1e-6 * size / np.median(copied):,.2f}"]
        times = [f"{np.median(copied / there):.2f}", f"{np.median(there / floor):,.1f}"]
        rows.append([f"{size:,}", *cells, *times])
    title = f"sample(n) of {plan.stored:,} transitions"
    return Grid(title, [*header, "times as fast", f"cost over {COPY}"], rows)


CAVEAT = """**These numbers are of the CPU as a device; those of a GPU are still to come.** They show what
torch costs beside NumPy on the same processor, where NumPy is the better choice. All times are those of the
clock: where the machine was busy, the ratios hold, and the microseconds do not."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, show, and write the page and its numbers."""
    options = BENCHMARK.parse(
        arguments,
        quick="seconds rather than minutes; small and rough",
        device={
            "default": "cuda" if torch.cuda.is_available() else "cpu",
            "help": "where transitions are kept [cuda, or cpu where there is none]",
        },
    )
    plan = QUICK if options.quick else FULL
    torch.set_num_threads(1)
    costs = measure_all(plan, options.device)
    rate = plan.block / np.median(costs[Sampling(COPY, plan.stored, 0)])
    facts = {
        "device": _name(options.device),
        "run": str(plan.pace),
        "copying on the device": f"{rate / 1e9:,.1f} GB/s, read and written; {bytes_a_row()} bytes a row",
    }
    note = CAVEAT if torch.device(options.device).type == "cpu" else ""
    page = BENCHMARK.publish(options, [grid(plan, costs)], facts, note=note)
    turns = [{**key._asdict(), "microseconds": (1e6 * cost).round(2).tolist()} for key, cost in costs.items()]
    numbers = {"facts": page.facts, "turns": turns}
    options.out.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")


def _name(device: str) -> str:
    return torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else "the CPU"


if __name__ == "__main__":
    main()
