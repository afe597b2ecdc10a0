"""The speed and memory of the replay buffer, compared with other libraries and with a lower bound.

For example:

    make bench ARGS=replay                           installs the other libraries first
    python -m benchmarks.replay --quick              a short test with the installed libraries
    python -m benchmarks.replay --out a_page.md      also writes a_page.svg

**Stored data.** The episodes are 100 different random walks, added repeatedly until a buffer has 10,000 or
1,000,000 rows. The reward is `-(norm(achieved - desired) > 0.05)`. There are four relabeled rows for every
original row, with the strategy `future`. Before the measurement, the share of relabeled rows, their goals and
the rewards are checked in every buffer.

**Measurements.** *Sampling* is a call of `sample(n)`, which returns n transitions in all libraries. *A batch
after every step* adds one step before each batch; *a batch after every episode* adds one episode, by the
fastest method that the library documents. *Copying the rows* is a lower bound: at given random indices,
`numpy.take` copies all data of each step and of its next step, and the goals of the relabeled rows. *Large /
small* is the time with 1,000,000 transitions divided by the time with 10,000. *Times ours* is the time
divided by that of her-toolkit, both with 1,000,000 transitions.

**Memory** is that of all arrays of a full buffer. Stable-Baselines3 also stores a dict with the infos of
every row, which is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from gymnasium import spaces
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks.replay_buffers import installed_peers
from benchmarks.replay_buffers.contender import (
    AddAndSample,
    Contender,
    Costs,
    Floor,
    Key,
    Sampling,
    check_relabeling,
)
from benchmarks.replay_buffers.ours import Ours, OursAsTensors
from benchmarks.replay_task import (
    ACTION,
    ACTION_SPACE,
    HORIZON,
    OBSERVATION_SPACE,
    make_episodes,
    never_reached,
)
from benchmarks.result_page import Benchmark, Grid, Requirement, at_least, at_most, compared_with, listing
from benchmarks.timing import Timing, Workload, measure
from her_wrappers import Episode, HindsightReplayBuffer

BENCHMARK = Benchmark(
    "replay",
    "How fast is a batch from the replay buffer?",
    __doc__,
    ("stable-baselines3", "cpprb", "tianshou", "torchrl"),
)
OURS, SB3, CPPRB, FLOOR = "her-toolkit", "Stable-Baselines3", "cpprb", "copying the rows"
TENSORS = "her-toolkit, to_torch()"
BATCH_SIZES = (256, 1024)
RHYTHMS = ("a batch after every step", "a batch after every episode")

VECTORS, IMAGES = "25/3/4 floats", "36x36 uint8 images in all three keys"
SAME_IMAGES = "the same, achieved goal = observation"
TRANSITIONS = 10_000
"""Transitions in the buffers whose memory is measured."""


@dataclass(frozen=True)
class Plan:
    """Size of the measurement."""

    stored: tuple[int, int]  # rows of the small and of the large buffers
    timing: Timing


FULL = Plan((10_000, 1_000_000), Timing(turns=15, seconds=0.1))
QUICK = Plan((1_000, 10_000), Timing(turns=3, seconds=0.01))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page and its picture."""
    options = BENCHMARK.parse(arguments, quick="a short, inaccurate measurement: seconds instead of minutes")
    plan = QUICK if options.quick else FULL
    np.random.seed(0)  # noqa: NPY002 - three libraries use NumPy's global generator
    torch.manual_seed(0)
    torch.set_num_threads(1)
    peers, missing = installed_peers()
    buffers, costs = measure_costs([Ours, OursAsTensors, *peers], plan, Console())
    sizes = bytes_per_transition()
    requirements = speed_requirements(costs, *plan.stored) + memory_requirements(sizes)
    grids = [
        sampling_grid(costs, [*buffers, FLOOR], plan.stored),
        learning_grid(costs, list(buffers), plan.stored[1]),
        memory_grid(sizes),
    ]
    settings = buffers | dict.fromkeys(missing, "not installed, and left out")
    configured = [[name, setting] for name, setting in settings.items() if setting]
    picture = options.out.with_suffix(".svg")
    BENCHMARK.publish(
        options,
        answer(costs, [each.name for each in peers], plan.stored),
        grids,
        {"run": str(plan.timing)},
        requirements=requirements,
        picture=picture.name,
        details=[Grid("Buffers", ["buffer", "configuration"], configured)],
    )
    draw(costs, [*buffers, FLOOR], plan.stored, picture)


def measure_costs(
    classes: Sequence[type[Contender]], plan: Plan, console: Console
) -> tuple[dict[str, str], Costs]:
    """Fill all buffers, check them, and return their configurations and the seconds per batch."""
    buffers: dict[str, str] = {}
    sampling: dict[Key, Workload] = {}
    learning: dict[Key, Workload] = {}
    for kind in classes:
        console.print(f"filling {kind.name}")
        for stored in plan.stored:
            buffer = kind(stored)
            buffer.fill(stored, make_episodes(100))
            sampling |= _sampling(buffer, stored)
        check_relabeling(buffer)
        buffers[kind.name] = kind.setting
        episodes, (by_step, by_episode) = make_episodes(20, seed=1), RHYTHMS
        learning[AddAndSample(kind.name, by_step)] = buffer.adding_steps(episodes, BATCH_SIZES[0])
        learning[AddAndSample(kind.name, by_episode)] = buffer.adding_episodes(episodes, BATCH_SIZES[0])
    for stored in plan.stored:
        sampling |= _sampling(Floor(stored), stored)
    # Sampling is measured first, since adding changes the buffers.
    return buffers, measure(sampling, plan.timing) | measure(learning, plan.timing)


def _sampling(buffer: Contender | Floor, stored: int) -> Iterator[tuple[Key, Workload]]:
    for batch_size in BATCH_SIZES:
        yield Sampling(buffer.name, stored, batch_size), buffer.sampling(batch_size)


def bytes_per_transition() -> dict[str, tuple[float, float | None]]:
    """Return bytes per transition for each kind of episode: ours, and Stable-Baselines3's if installed."""
    rng = np.random.default_rng(0)
    keys = ("observation", "achieved_goal", "desired_goal")
    image_space = spaces.Dict({key: spaces.Box(0, 255, (36, 36), np.uint8) for key in keys})
    kinds: dict[str, tuple[spaces.Dict, Callable[[], Episode]]] = {
        VECTORS: (OBSERVATION_SPACE, lambda: make_episodes(1)[0]),
        IMAGES: (image_space, lambda: _image_episode(rng, goal_is_observation=False)),
        SAME_IMAGES: (image_space, lambda: _image_episode(rng, goal_is_observation=True)),
    }
    return {kind: (_our_bytes(space, make), _their_bytes(space)) for kind, (space, make) in kinds.items()}


def _image_episode(rng: np.random.Generator, *, goal_is_observation: bool) -> Episode:
    pictures, others, goals = rng.integers(256, size=(3, HORIZON + 1, 36, 36), dtype=np.uint8)
    goals[:] = goals[0]
    achieved = pictures if goal_is_observation else others
    return Episode(
        {"observation": pictures, "achieved_goal": achieved, "desired_goal": goals},
        np.zeros((HORIZON, ACTION), np.float32),
        np.full(HORIZON, -1.0),
        terminated=False,
        truncated=True,
    )


def _our_bytes(space: spaces.Dict, make: Callable[[], Episode]) -> float:
    buffer = HindsightReplayBuffer(space, ACTION_SPACE, buffer_size=TRANSITIONS, compute_reward=never_reached)
    while len(buffer) < TRANSITIONS:
        buffer.add_episode(make())
    return buffer.nbytes / len(buffer)


def _their_bytes(space: spaces.Dict) -> float | None:
    if find_spec("stable_baselines3") is None:
        return None
    from benchmarks.replay_buffers.sb3 import array_bytes  # noqa: PLC0415 - an optional dependency

    return array_bytes(TRANSITIONS, space) / TRANSITIONS


def answer(costs: Costs, peers: Sequence[str], stored: tuple[int, int]) -> str:
    """Return sentences that compare the time of a batch of 256 with the other libraries, for the page."""
    small, large = stored

    def compared(rows: int, *, only_slower: bool = False) -> str:
        ours = Sampling(OURS, rows, 256)
        ratios = {name: ratio(costs, Sampling(name, rows, 256), ours) or 0.0 for name in peers}
        shown = {name: each for name, each in ratios.items() if each < 1 or not only_slower}
        return listing([compared_with(name, each) for name, each in shown.items()])

    microseconds = 1e6 * np.median(costs[Sampling(OURS, large, 256)])
    return (
        f"Our buffer samples 256 of {large:,} transitions in {microseconds:.0f} microseconds: "
        f"{compared(large)}. With {small:,} stored transitions, it is "
        f"{compared(small, only_slower=True) or 'never slower'}."
    )


def ratio(costs: Costs, cost: Key, over: Key) -> float | None:
    """Return the median over the turns of the ratio of two costs; None if one is missing."""
    if cost not in costs or over not in costs:
        return None
    return float(np.median(costs[cost] / costs[over]))


def speed_requirements(costs: Costs, small: int, large: int) -> list[Requirement]:
    """Return the requirements for sampling from buffers with ``small`` and ``large`` numbers of rows."""

    def faster_than(
        peer: str, batch_size: int, bound: float, *, stored: int = large, ours: str = OURS
    ) -> Requirement:
        theirs, own = (Sampling(name, stored, batch_size) for name in (peer, ours))
        call = f"`sample({batch_size}){'.to_torch()' * (ours == TENSORS)}`"
        what = f"time of {peer} / time of {call}, {stored:,} stored"
        return at_least(what, bound, ratio(costs, theirs, own))

    def cost_over(what: str, base: Sampling) -> Requirement:
        measured = ratio(costs, Sampling(OURS, large, 256), base)
        return at_most(f"time of `sample(256)`, {large:,} stored / {what}", 2.5, measured)

    return [
        faster_than(SB3, 256, 28),
        faster_than(SB3, 256, 20, ours=TENSORS),
        faster_than(CPPRB, 256, 1.8),
        faster_than(CPPRB, 256, 1, stored=small),
        cost_over("time of copying the rows", Sampling(FLOOR, large, 256)),
        faster_than(SB3, 1024, 12),
        faster_than(CPPRB, 1024, 1),
        cost_over(f"{small:,} stored", Sampling(OURS, small, 256)),
    ]


def memory_requirements(sizes: Mapping[str, tuple[float, float | None]]) -> list[Requirement]:
    """Return the requirements for memory; ``sizes`` is the result of `bytes_per_transition`."""
    requirements = []
    for kind, bound in ((VECTORS, 0.6), (IMAGES, 0.36), (SAME_IMAGES, 0.19)):
        ours, theirs = sizes[kind]
        what = f"bytes per transition / those of {SB3}: {kind}"
        requirements.append(at_most(what, bound, ours / theirs if theirs else None))
    return requirements


def _microseconds(cost: np.ndarray) -> str:
    return f"{1e6 * np.median(cost):,.1f}"


def sampling_grid(costs: Costs, names: Sequence[str], stored: tuple[int, int]) -> Grid:
    """Return the table of microseconds for a batch of each size; the smaller batch is also of few rows."""
    (few, many), (small, large) = stored, BATCH_SIZES
    rows = []
    for name in names:
        few_rows = Sampling(name, few, small)
        cells = [_microseconds(costs[few_rows])]
        for size in BATCH_SIZES:
            key = Sampling(name, many, size)
            cells.append(_microseconds(costs[key]))
            if size == small:
                cells.append(f"{ratio(costs, key, few_rows):.2f}")
            cells.append(f"{ratio(costs, key, Sampling(OURS, many, size)):.2f}")
        rows.append([name, *cells])
    header = ["buffer", f"{small} of {few:,} [us]", f"{small} of {many:,} [us]", "large / small"]
    header += ["times ours", f"{large:,} of {many:,} [us]", "times ours"]
    return Grid(f"Sampling {small} or {large:,} transitions", header, rows)


def learning_grid(costs: Costs, names: Sequence[str], stored: int) -> Grid:
    """Return the table of microseconds for a batch after every step, and after every episode, by buffer."""
    header, rows = ["buffer"], [[name] for name in names]
    for rhythm in RHYTHMS:
        header += [f"{rhythm} [us]", "times ours"]
        for row in rows:
            key, ours = (AddAndSample(name, rhythm) for name in (row[0], OURS))
            row += [_microseconds(costs[key]), f"{ratio(costs, key, ours):.2f}"]
    return Grid(f"Adding and sampling 256 of {stored:,} transitions", header, rows)


def memory_grid(sizes: Mapping[str, tuple[float, float | None]]) -> Grid:
    """Return the table of bytes per transition; ``sizes`` is the result of `bytes_per_transition`."""
    rows = [
        [kind, f"{ours:,.1f}", *(["", ""] if theirs is None else [f"{theirs:,.1f}", f"{ours / theirs:.3f}"])]
        for kind, (ours, theirs) in sizes.items()
    ]
    return Grid("Memory: bytes allocated per transition", ["transitions", OURS, SB3, "ratio"], rows)


def draw(costs: Costs, names: Sequence[str], all_stored: tuple[int, int], path: Path) -> None:
    """Write a bar chart of the time of a batch of 256, with the first of ``names`` at the top."""
    places = np.arange(len(names))[::-1]
    figure = Figure(figsize=(8, 0.6 * len(names) + 1), layout="constrained")
    axes = figure.subplots()
    for stored, shift, color in zip(all_stored, (0.2, -0.2), ("#9ecae1", "#08519c"), strict=True):
        times = [1e6 * float(np.median(costs[Sampling(name, stored, 256)])) for name in names]
        bars = axes.barh(places + shift, times, 0.38, color=color, label=f"{stored:,} rows")
        axes.bar_label(bars, [f"{time:,.0f}" for time in times], padding=3, fontsize=8)
    axes.set_yticks(places, names)
    axes.set_xscale("log")
    axes.margins(x=0.1)
    axes.set_xlabel("microseconds for a batch of 256 (log scale)")
    axes.legend(loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    with mpl.rc_context({"svg.hashsalt": "replay"}):  # equal figures are equal files
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
