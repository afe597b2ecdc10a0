"""The speed of `DeviceReplayBuffer`, which stores the steps of a batched simulator as tensors on its device.

For example:

    python -m benchmarks.replay_gpu --quick             a short test
    python -m benchmarks.replay_gpu --device cuda       about five minutes

One environment has 100,000 stored steps, or 4,096 environments have 200 each. Episodes end at different
times. There are four relabeled rows for every original row, with the strategy `future`.

*Sampling* is `sample(n)` of the buffer on the device; *in a graph* replays a CUDA graph that contains this
call. *Gathering the rows* is a lower bound: at given random slots, three operations copy all values of the
states before and after each step, and the new goals. *Copied to the device* is `sample(n)` of a
`HindsightReplayBuffer` with as many transitions, whose arrays are then copied to the device. *Adding* is
`add` of one step of all environments; its lower bound copies the same values. *Operations* are the operations
of torch in one call, each of which a GPU launches. Times end when the device has finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.replay_buffers.ours import Ours
from benchmarks.replay_task import ACTION_SPACE, HORIZON, OBSERVATION_SPACE, TOLERANCE, make_episodes
from benchmarks.result_page import Benchmark, Grid
from benchmarks.timing import Timing, Workload, measure, repeat
from her_wrappers import DeviceReplayBuffer, SimulatorStep

BENCHMARK = Benchmark("replay_gpu", "How fast is a replay buffer for simulators?", __doc__)
FULL, QUICK = Timing(turns=9, seconds=0.3), Timing(turns=2, seconds=0.02)
DEVICE_OPTION = {
    "default": "cuda" if torch.cuda.is_available() else "cpu",
    "help": "the device [cuda, or cpu if CUDA is not available]",
}
LANES = ((1, 100_000), (4_096, 200))
QUICK_LANES = ((1, 500), (64, 100))
BATCHES, QUICK_BATCHES = (256, 4_096, 65_536), (256,)


def compute_reward(achieved_goal: torch.Tensor, desired_goal: torch.Tensor, info: object) -> torch.Tensor:
    """Return 0 for goals that are equal up to a tolerance, else -1."""
    distance: torch.Tensor = torch.linalg.vector_norm(achieved_goal - desired_goal, dim=-1)
    return -(distance > TOLERANCE).float()


def device_name(device: str) -> str:
    """Return the name of a device for a page."""
    if torch.device(device).type == "cpu":
        return "the CPU"
    return f"{torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda}"


class Simulation:
    """Random steps of N environments, made in advance and used in turn."""

    def __init__(self, num_envs: int, device: str) -> None:
        generator = torch.Generator(device).manual_seed(0)

        def states() -> dict[str, torch.Tensor]:
            sizes = {key: space.shape[0] for key, space in OBSERVATION_SPACE.items()}  # type: ignore[index] # Boxes have shapes
            return {
                key: torch.randn(num_envs, n, generator=generator, device=device) for key, n in sizes.items()
            }

        self.number = 0
        self.first: dict[str, torch.Tensor] | None = states()
        never = torch.zeros(num_envs, dtype=torch.bool, device=device)
        action = torch.randn(num_envs, *ACTION_SPACE.shape, generator=generator, device=device)
        self.steps = []
        for _ in range(HORIZON):
            last, new = states(), states()
            ended = torch.rand(num_envs, generator=generator, device=device) < 1 / HORIZON
            following = {key: torch.where(ended[:, None], new[key], last[key]) for key in last}
            self.steps.append(
                SimulatorStep(following, action, -torch.ones_like(action[:, 0]), never, ended, last)
            )

    def next(self) -> SimulatorStep:
        """Return the next step."""
        step = self.steps[self.number % HORIZON]._replace(first_observation=self.first)
        self.number, self.first = self.number + 1, None
        return step


class Count(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has no types here
    """Counts operations of torch."""

    operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += 1
        return func(*args, **kwargs or {})


def wait(device: str) -> None:
    """Wait until the device has finished."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def filled(num_envs: int, steps: int, device: str) -> tuple[DeviceReplayBuffer, Simulation]:
    """Return a full buffer, and the simulation that filled it."""
    buffer = DeviceReplayBuffer(
        OBSERVATION_SPACE, ACTION_SPACE, num_envs,
        steps_per_env=steps, compute_reward=compute_reward, device=device, seed=0,
    )  # fmt: skip
    simulation = Simulation(num_envs, device)
    for _ in range(steps + 1):
        buffer.add(simulation.next())
    buffer.sample(2)  # the first call inspects the data
    return buffer, simulation


def sampling(buffer: DeviceReplayBuffer, size: int, copied: Any, device: str) -> dict[str, Workload]:
    """Return the workloads of a batch of ``size`` transitions."""
    rows = torch.randn(len(buffer), 36, device=device)
    slots = torch.randint(len(rows) - 1, (2, size), device=device)

    def gather() -> tuple[torch.Tensor, ...]:
        return rows[slots[0]], rows[slots[0] + 1], rows[:, 25:28][slots[1]]

    def finish() -> None:
        wait(device)

    works = {
        "sampling": repeat(lambda: buffer.sample(size), finish),
        "gathering the rows": repeat(gather, finish),
        "copied to the device": repeat(lambda: copied.sample(size).to_torch(device), finish),
    }
    if device.startswith("cuda"):
        buffer.sample(size)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(buffer.generator)
        with torch.cuda.graph(graph):
            buffer.sample(size)
        works["in a graph"] = repeat(graph.replay, finish)
    return works


def measure_lanes(
    num_envs: int, steps: int, batches: Sequence[int], device: str, timing: Timing
) -> tuple[list[list[str]], list[str], float]:
    """Return a row of cells for each batch size and for adding, and the most transitions per microsecond."""
    buffer, simulation = filled(num_envs, steps, device)
    memory = Ours(num_envs * steps).buffer
    while len(memory) < num_envs * steps:
        memory.add_episodes(make_episodes(100)[: (num_envs * steps - len(memory)) // HORIZON])
    operations = []
    for call in (lambda: buffer.sample(256), lambda: buffer.add(simulation.next())):
        with Count() as mode:  # type: ignore[no-untyped-call] # likewise
            call()
        operations.append(mode.operations)
    rows, best = [], 0.0
    for size in batches:
        costs = measure(sampling(buffer, size, memory, device), timing)
        medians = {name: 1e6 * float(np.median(values)) for name, values in costs.items()}
        rate = size / min(medians["sampling"], medians.get("in a graph", np.inf))
        best = max(best, rate)
        cells = [f"{value:,.0f}" for value in medians.values()]
        rows.append([f"{num_envs:,}", f"{size:,}", *cells, f"{rate:.2f}", str(operations[0])])
    step = simulation.steps[0]
    sources = [*step.last_observation.values(), *step.observation.values()]
    targets = [torch.empty_like(values) for values in sources]

    def copy_step() -> None:
        for target, values in zip(targets, sources, strict=True):
            target.copy_(values)

    works = {
        "add": repeat(lambda: buffer.add(simulation.next()), lambda: wait(device)),
        "copy": repeat(copy_step, lambda: wait(device)),
    }
    costs = measure(works, timing)
    added = [f"{1e6 * float(np.median(costs[name])):,.0f}" for name in works]
    return rows, [f"{num_envs:,}", *added, str(operations[1])], best


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(arguments, quick="two short turns", device=DEVICE_OPTION)
    timing, device = QUICK if options.quick else FULL, options.device
    torch.set_num_threads(1)
    batches = QUICK_BATCHES if options.quick else BATCHES
    lanes = QUICK_LANES if options.quick else LANES
    found = [measure_lanes(*each, batches, device, timing) for each in lanes]
    names = ["sampling", "gathering the rows", "copied to the device"]
    names += ["in a graph"] if device.startswith("cuda") else []
    header = ["environments", "batch", *(f"{name} [us]" for name in names), "M transitions/s", "operations"]
    adding = ["environments", "adding [us]", "copying [us]", "operations"]
    grids = [
        Grid("Sampling", header, [row for rows, _, _ in found for row in rows]),
        Grid("Adding a step of all environments", adding, [added for _, added, _ in found]),
    ]
    best = max(rate for _, _, rate in found)
    answer = f"On {device_name(device)}, a buffer with tensors samples and relabels up to {best:.1f} million "
    answer += "transitions per second, and no call waits for the device."
    BENCHMARK.publish(options, answer, grids, {"device": device_name(device), "run": str(timing)})


if __name__ == "__main__":
    main()
