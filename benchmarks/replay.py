"""The replay buffer, compared with other libraries and with a lower bound in the same run.

For example:

    make bench ARGS=replay                           installs the other libraries first
    python -m benchmarks.replay --quick              a short test with the installed libraries
    python -m benchmarks.replay --out a_page.md      also writes a_page.json and a_page.png

**Stored data.** Episodes of 50 steps: 25-float observations, 3-float goals, 4-float actions, all float32.
100 different random walks from seed 0 are added repeatedly, until a buffer has the number of rows in the
tables. Every buffer is filled by its own methods, and is full unless the table of buffers says otherwise. The
reward is `-(norm(achieved - desired) > 0.05)` as float32, in NumPy; for TorchRL in torch.

**Relabeling.** Four rows for every original one, with the strategy `future`. Before the measurement, 10,240
rows of every large buffer are checked: four fifths are relabeled, their goals were achieved in the same step
or later in the episode, and every reward matches its goals.

**Measurements.** *Sampling*: `sample(n)`, called as in each library's documentation. Batches are arrays, or
tensors if the library returns tensors; ours is also measured with `to_torch()`. *Adding and sampling*: a
batch of 256 after every step, with steps added one by one (Stable-Baselines3's default), and a batch of 256
after every episode, added by the fastest method that the library documents. The arguments of these calls are
computed before the measurement. *The lower bound*: two gathers of records with all data of a step, and one
gather of goals for the relabeled rows, by `numpy.take` at random indices, which are sampled before the
measurement.

**Method.** One thread. All buffers run in turns, and sample a few batches before each measurement. Every
ratio is computed within one turn, so that a busy machine slows both sides; the tables show medians over the
turns. Python's garbage collector is disabled while time is measured.

**Seeds.** Ours: `seed=0`. Stable-Baselines3, Tianshou and cpprb: `numpy.random.seed(0)`; the goals of cpprb
cannot be seeded. TorchRL: `torch.manual_seed(0)`.

**Memory.** Bytes of all arrays of a full buffer for 10,000 transitions, divided by its transitions.
Stable-Baselines3 also stores a dict for the infos of every row, which is not counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from rich.console import Console

from benchmarks.replay_buffers import installed_peers
from benchmarks.replay_buffers.contender import Contender, check_relabeling
from benchmarks.replay_buffers.floor import Floor
from benchmarks.replay_buffers.ours import Ours, OursAsTensors
from benchmarks.replay_memory import bytes_per_transition
from benchmarks.replay_report import BATCH_SIZES, RHYTHMS, Results, draw, grids, record
from benchmarks.replay_task import make_episodes
from benchmarks.replay_work import (
    AddAndSample,
    Key,
    Sampling,
    add_episodes_and_sample,
    add_steps_and_sample,
    sampling,
)
from benchmarks.result_page import Benchmark
from benchmarks.timing import Timing, Workload, measure

BENCHMARK = Benchmark(
    "replay",
    "The replay buffer compared with other libraries",
    __doc__,
    ("stable-baselines3", "cpprb", "tianshou", "torchrl"),
)


@dataclass(frozen=True)
class Plan:
    """Size of the measurement.

    Attributes:
        stored: Rows of the small and of the large buffers.
        timing: Number and length of the measurements.
    """

    stored: tuple[int, int]
    timing: Timing


FULL = Plan((10_000, 1_000_000), Timing(turns=15, seconds=0.1))
QUICK = Plan((1_000, 10_000), Timing(turns=3, seconds=0.01))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page, its numbers and its picture."""
    options = BENCHMARK.parse(arguments, quick="a short, inaccurate measurement: seconds instead of minutes")
    plan = QUICK if options.quick else FULL
    results = run(plan, Console())
    picture = options.out.with_suffix(".png")
    page = BENCHMARK.publish(
        options, grids(results, quick=options.quick), {"run": str(plan.timing)}, picture=picture.name
    )
    draw(results, picture)
    numbers = {"facts": page.facts, **record(results)}
    options.out.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")


def run(plan: Plan, console: Console) -> Results:
    """Fill all buffers, check them, and return the measurements."""
    np.random.seed(0)  # noqa: NPY002 - three libraries use NumPy's global generator
    torch.manual_seed(0)
    torch.set_num_threads(1)
    peers, missing = installed_peers()
    classes: list[type[Contender]] = [Ours, OursAsTensors, *peers]
    for name in missing:
        console.print(f"left out: {name} is not installed (benchmarks/requirements-replay.txt)")
    buffers: dict[str, str] = {}
    workloads: dict[Key, Workload] = {}
    for kind in classes:
        console.print(f"filling {kind.name}")
        by_size = {stored: _filled(kind, stored) for stored in plan.stored}
        share = check_relabeling(by_size[plan.stored[-1]])
        buffers[kind.name] = _describe(kind, plan.stored[-1], share)
        workloads |= {
            key: work for stored, buffer in by_size.items() for key, work in _sampling(buffer, stored)
        }
        workloads |= _learning(by_size[plan.stored[-1]])
    for stored in plan.stored:
        workloads |= _sampling(Floor(stored), stored)
    # Sampling is measured first, since adding changes the buffers.
    costs: dict[Key, np.ndarray] = {}
    for kind_of_work in (Sampling, AddAndSample):
        chosen = {key: work for key, work in workloads.items() if isinstance(key, kind_of_work)}
        costs |= measure(chosen, plan.timing)
    return Results(buffers, missing, plan.stored, costs, bytes_per_transition())


def _filled(kind: type[Contender], stored: int) -> Contender:
    buffer = kind(stored)
    buffer.fill(stored, make_episodes(100))
    return buffer


def _describe(kind: type[Contender], stored: int, share: float) -> str:
    setting = f"{kind.setting}. " if kind.setting else ""
    content = f"{stored // kind.rows_per_transition:,} distinct transitions in {stored:,} rows"
    return f"{setting}{content}; {share:.3f} of the sampled rows are relabeled"


def _sampling(buffer: Contender | Floor, stored: int) -> Iterator[tuple[Key, Workload]]:
    for batch_size in BATCH_SIZES:
        yield Sampling(buffer.name, stored, batch_size), sampling(buffer, batch_size)


def _learning(buffer: Contender) -> dict[Key, Workload]:
    by_step, by_episode = RHYTHMS
    episodes = make_episodes(20, seed=1)
    return {
        AddAndSample(buffer.name, by_step): add_steps_and_sample(buffer, episodes, BATCH_SIZES[0]),
        AddAndSample(buffer.name, by_episode): add_episodes_and_sample(buffer, episodes, BATCH_SIZES[0]),
    }


if __name__ == "__main__":
    main()
