"""Our replay buffer against its peers and the machine's floor, in one run.

For example:

    make bench-replay                                which installs the other libraries first
    python -m benchmarks.replay --quick              to see that it runs, with those that are installed
    python -m benchmarks.replay --out a_page.md      beside it go a_page.json and a_page.png

**What is stored.** Episodes of 50 steps: 25-float observations, 3-float goals, 4-float actions, all float32.
100 different random walks from seed 0 are added again and again, until a buffer holds as many rows as the
tables say. Every buffer is filled by its own methods, and is full unless the table of buffers says otherwise.
The reward is `-(norm(achieved - desired) > 0.05)` as float32, in NumPy; for TorchRL in torch.

**What is relabeled.** Four rows for every original one, by the strategy `future`. Before anything is timed,
10,240 rows of every large buffer are checked: four fifths are relabeled, their goals were achieved by the
step or later in the episode, and every reward is that of its goals.

**What is timed.** *Sampling*: `sample(n)`, as each library's documentation calls it. Batches stay what they
are: arrays, or tensors where a library makes those itself; ours is shown with `to_torch()` too. *Adding and
sampling*: a batch of 256 after every step, each step added by itself (Stable-Baselines3's default rhythm),
and a batch of 256 after every episode, added in the quickest way that the library documents. Steps and
episodes were given the form that a library takes beforehand. *The floor*: two gathers of records of all that
is known of a step, and one of goals for the relabeled share, by `numpy.take` at fresh random indices, which
are drawn while no time is taken.

**How.** One thread. All contenders take turns, each with a few batches before its time begins; every ratio is
taken within one turn, so that a busy machine slows both sides; the tables give medians over the turns.
Python's garbage collector rests meanwhile.

**Seeds.** Ours: `seed=0`. Stable-Baselines3, Tianshou and cpprb: `numpy.random.seed(0)`; the goals of cpprb
cannot be seeded. TorchRL: `torch.manual_seed(0)`.

**Memory.** Bytes of all arrays that a buffer for 10,000 transitions allocates, over its transitions, when it
is full. Stable-Baselines3 also keeps a dict for the infos of every row; those are not counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from rich.console import Console

from benchmarks.benchmark import Benchmark
from benchmarks.replay_buffers import installed_peers
from benchmarks.replay_buffers.contender import Contender, check_relabeling
from benchmarks.replay_buffers.floor import Floor
from benchmarks.replay_buffers.ours import Ours, OursAsTensors
from benchmarks.replay_memory import bytes_a_transition
from benchmarks.replay_report import BATCH_SIZES, RHYTHMS, Results, draw, grids, record
from benchmarks.replay_task import make_episodes
from benchmarks.replay_work import (
    Key,
    Learning,
    Sampling,
    learning_by_episode,
    learning_by_step,
    sampling,
)
from benchmarks.timing import Pace, Work, measure

BENCHMARK = Benchmark(
    "replay",
    "The replay buffer against its peers",
    __doc__,
    ("stable-baselines3", "cpprb", "tianshou", "torchrl"),
)


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        stored: Rows of the small and of the large buffers.
        pace: How long each is timed.
    """

    stored: tuple[int, int]
    pace: Pace


FULL = Plan((10_000, 1_000_000), Pace(turns=15, seconds=0.1))
QUICK = Plan((1_000, 10_000), Pace(turns=3, seconds=0.01))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, show, and write the page, its numbers and its picture."""
    options = BENCHMARK.parse(arguments, quick="seconds rather than minutes; small and rough")
    plan = QUICK if options.quick else FULL
    results = run(plan, Console())
    picture = options.out.with_suffix(".png")
    page = BENCHMARK.publish(
        options, grids(results, quick=options.quick), {"run": str(plan.pace)}, picture=picture.name
    )
    draw(results, picture)
    numbers = {"facts": page.facts, **record(results)}
    options.out.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")


def run(plan: Plan, console: Console) -> Results:
    """Fill all buffers, check them, and measure."""
    np.random.seed(0)  # noqa: NPY002 - three peers draw from NumPy's global generator
    torch.manual_seed(0)
    torch.set_num_threads(1)
    peers, missing = installed_peers()
    kinds: list[type[Contender]] = [Ours, OursAsTensors, *peers]
    for name in missing:
        console.print(f"left out: {name} is not installed (benchmarks/requirements-replay.txt)")
    buffers: dict[str, str] = {}
    works: dict[Key, Work] = {}
    for kind in kinds:
        console.print(f"filling {kind.name}")
        by_size = {stored: _filled(kind, stored) for stored in plan.stored}
        share = check_relabeling(by_size[plan.stored[-1]])
        buffers[kind.name] = _describe(kind, plan.stored[-1], share)
        works |= {key: work for stored, buffer in by_size.items() for key, work in _sampling(buffer, stored)}
        works |= _learning(by_size[plan.stored[-1]])
    for stored in plan.stored:
        works |= _sampling(Floor(stored), stored)
    # Sampling first: adding goes on filling what sampling is to find as it was.
    costs: dict[Key, np.ndarray] = {}
    for kind_of_work in (Sampling, Learning):
        chosen = {key: work for key, work in works.items() if isinstance(key, kind_of_work)}
        costs |= measure(chosen, plan.pace)
    return Results(buffers, missing, plan.stored, costs, bytes_a_transition())


def _filled(kind: type[Contender], stored: int) -> Contender:
    buffer = kind(stored)
    buffer.fill(stored, make_episodes(100))
    return buffer


def _describe(kind: type[Contender], stored: int, share: float) -> str:
    setting = f"{kind.setting}. " if kind.setting else ""
    content = f"{stored // kind.rows_a_transition:,} distinct transitions in {stored:,} rows"
    return f"{setting}{content}; {share:.3f} of what it samples is relabeled"


def _sampling(buffer: Contender | Floor, stored: int) -> Iterator[tuple[Key, Work]]:
    for batch_size in BATCH_SIZES:
        yield Sampling(buffer.name, stored, batch_size), sampling(buffer, batch_size)


def _learning(buffer: Contender) -> dict[Key, Work]:
    by_step, by_episode = RHYTHMS
    episodes = make_episodes(20, seed=1)
    return {
        Learning(buffer.name, by_step): learning_by_step(buffer, episodes, BATCH_SIZES[0]),
        Learning(buffer.name, by_episode): learning_by_episode(buffer, episodes, BATCH_SIZES[0]),
    }


if __name__ == "__main__":
    main()
