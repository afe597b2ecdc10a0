"""The results of `benchmarks.replay`: tables, a picture, and all numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.replay_requirements import FLOOR, OURS, memory_requirements, speed_requirements
from benchmarks.replay_work import AddAndSample, Costs, Key, Sampling
from benchmarks.result_page import Grid, Requirement, requirement_grid

BATCH_SIZES = (256, 1024)
RHYTHMS = ("a batch per step", "a batch per episode")


@dataclass(frozen=True)
class Results:
    """The results of one run.

    Attributes:
        buffers: Configurations of the measured buffers, by name.
        missing: Import names of libraries that are not installed.
        stored: Rows of the small and of the large buffers.
        costs: Seconds per batch.
        sizes: Bytes per transition of our buffer and of Stable-Baselines3's.
    """

    buffers: dict[str, str]
    missing: list[str]
    stored: tuple[int, int]
    costs: Costs
    sizes: dict[str, tuple[float, float | None]]

    @property
    def requirements(self) -> list[Requirement]:
        """All requirements, with the measurements."""
        return speed_requirements(self.costs, *self.stored) + memory_requirements(self.sizes)

    def cost(self, key: Key) -> str:
        """Return the median microseconds per batch."""
        return f"{1e6 * np.median(self.costs[key]):,.1f}"

    def times(self, key: Key, over: Key) -> str:
        """Return the median ratio of two costs within a turn."""
        return f"{np.median(self.costs[key] / self.costs[over]):.2f}"


def grids(results: Results, *, quick: bool) -> list[Grid]:
    """Return all tables; requirements are not judged after a quick run."""
    sampling = [_sampling_grid(results, batch_size) for batch_size in BATCH_SIZES]
    return [
        requirement_grid(results.requirements, quick=quick),
        *sampling,
        _learning_grid(results),
        _memory_grid(results),
        _buffer_grid(results),
    ]


def _sampling_grid(results: Results, batch_size: int) -> Grid:
    small, large = results.stored
    rows = []
    for name in [*results.buffers, FLOOR]:
        few, many = (Sampling(name, stored, batch_size) for stored in results.stored)
        over_ours = results.times(many, Sampling(OURS, large, batch_size))
        rows.append([name, results.cost(few), results.cost(many), results.times(many, few), over_ours])
    header = ["buffer", f"of {small:,} [us]", f"of {large:,} [us]", "growth", "over ours"]
    return Grid(f"sample({batch_size})", header, rows)


def _learning_grid(results: Results) -> Grid:
    header, rows = ["buffer"], [[name] for name in results.buffers]
    for rhythm in RHYTHMS:
        header += [f"{rhythm} [us]", "over ours"]
        for row in rows:
            key, ours = (AddAndSample(name, rhythm) for name in (row[0], OURS))
            row += [results.cost(key), results.times(key, ours)]
    return Grid(f"Adding and sampling, per batch of 256 of {results.stored[1]:,}", header, rows)


def _memory_grid(results: Results) -> Grid:
    rows = [
        [kind, f"{ours:,.1f}", *(["", ""] if theirs is None else [f"{theirs:,.1f}", f"{ours / theirs:.3f}"])]
        for kind, (ours, theirs) in results.sizes.items()
    ]
    return Grid(
        "Memory: bytes allocated a transition", ["episodes", OURS, "Stable-Baselines3", "ratio"], rows
    )


def _buffer_grid(results: Results) -> Grid:
    missing = dict.fromkeys(results.missing, "not installed, and left out")
    return Grid("Buffers", ["buffer", "configuration"], [*map(list, {**results.buffers, **missing}.items())])


def record(results: Results) -> dict[str, object]:
    """Return all measurements, for a JSON file."""
    return {
        "buffers": results.buffers,
        "missing": results.missing,
        "microseconds_a_batch": [
            {**key._asdict(), "median": 1e6 * float(np.median(cost)), "turns": (1e6 * cost).round(2).tolist()}
            for key, cost in results.costs.items()
        ],
        "bytes_per_transition": results.sizes,
        "requirements": [asdict(requirement) for requirement in results.requirements],
    }


def draw(results: Results, path: Path) -> None:
    """Write a bar chart of the times per batch."""
    names = [*results.buffers, FLOOR][::-1]
    figure = Figure(figsize=(8, 0.6 * len(names) + 1), layout="constrained")
    axes = figure.subplots()
    for stored, shift, color in zip(results.stored, (0.2, -0.2), ("#9ecae1", "#08519c"), strict=True):
        costs = [1e6 * float(np.median(results.costs[Sampling(name, stored, 256)])) for name in names]
        bars = axes.barh(np.arange(len(names)) + shift, costs, 0.38, color=color, label=f"{stored:,} rows")
        axes.bar_label(bars, [f"{cost:,.0f}" for cost in costs], padding=3, fontsize=8)
    axes.set_yticks(np.arange(len(names)), names)
    axes.set_xscale("log")
    axes.margins(x=0.1)
    axes.set_xlabel("microseconds for a batch of 256 (log scale)")
    axes.legend(loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
