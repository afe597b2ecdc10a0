"""The speed of the replay buffer with priorities, compared with cpprb in the same run.

For example:

    make bench ARGS=replay_priorities                      installs the other libraries first
    python -m benchmarks.replay_priorities --quick         a short test with the installed libraries
    python -m benchmarks.replay_priorities --out a.md      some minutes

The stored data are those of [the buffers without priorities](replay.md). All rows have priorities from an
exponential distribution, with alpha = 0.6 and eps = 0.0001. *cpprb with HER* is its `HindsightReplayBuffer`,
which relabels when an episode is stored and stores every transition five times; *cpprb without HER* is its
`PrioritizedReplayBuffer`. Before the measurement, the share of the rows with the highest priorities in the
samples is checked.

*Sample* is a call of `sample(256)`, with importance weights. *Sample and update* also calls
`update_priorities` for the batch, as in training. Our buffer prefetches batches in the first measurement
only, since new priorities invalidate them. *Ours / theirs* is the time of her-toolkit for *sample and update*
divided by that of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

import numpy as np

from benchmarks.replay import FULL, QUICK, Plan
from benchmarks.replay_buffers.contender import Costs, Sampling, check_relabeling
from benchmarks.replay_buffers.prioritized import OursPrioritized, Prioritized, check_priorities
from benchmarks.replay_task import make_episodes
from benchmarks.result_page import Benchmark, Grid, Requirement, at_most, compared_with
from benchmarks.timing import Workload, measure

BENCHMARK = Benchmark("replay_priorities", "How fast are priorities?", __doc__, ("cpprb",))
BATCH_SIZE = 256
UPDATING = "sample and update"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(arguments, quick="a short, inaccurate measurement: seconds instead of minutes")
    plan, classes = (QUICK if options.quick else FULL), contenders()
    costs = measure(_filled(classes, plan), plan.timing)
    found = requirements(costs, plan.stored, classes)
    BENCHMARK.publish(
        options,
        answer(costs, plan.stored, classes),
        [_cost_grid(costs, plan, classes)],
        {"run": str(plan.timing)},
        requirements=found,
    )


def contenders() -> list[type[Prioritized]]:
    """Return our class and, if cpprb is installed, the classes of cpprb."""
    classes: list[type[Prioritized]] = [OursPrioritized]
    if find_spec("cpprb") is not None:
        peer = import_module("benchmarks.replay_buffers.cpprb")
        classes += [peer.CpprbPrioritized, peer.CpprbPlain]
    return classes


def _filled(classes: Sequence[type[Prioritized]], plan: Plan) -> dict[Sampling, Workload]:
    """Fill and check the buffers; return the workloads."""
    np.random.seed(0)  # noqa: NPY002 - cpprb uses NumPy's global generator
    workloads = {}
    for kind in classes:
        for stored in plan.stored:
            buffer = kind(stored)
            buffer.fill(stored, make_episodes(100))
            check_priorities(buffer, np.random.default_rng(0).exponential(size=stored))
            if kind.name != "cpprb without HER":
                check_relabeling(buffer)
            workloads[Sampling(kind.name, stored, BATCH_SIZE)] = buffer.sampling(BATCH_SIZE)
            workloads[Sampling(_updating(kind), stored, BATCH_SIZE)] = sampling_and_updating(buffer)
    return workloads


def sampling_and_updating(buffer: Prioritized) -> Workload:
    """Return a workload that samples batches, and updates the priorities of each."""
    fresh = np.random.default_rng(1).exponential(size=(64, BATCH_SIZE))

    def run(calls: int) -> None:
        for i in range(calls):
            buffer.update(buffer.index(buffer.sample(BATCH_SIZE)), fresh[i % len(fresh)])

    return Workload(run)


def answer(costs: Costs, stored: Sequence[int], classes: Sequence[type[Prioritized]]) -> str:
    """Return sentences on the time of a batch and its update, compared with cpprb, for the page."""
    subject = f"transitions stored, sampling {BATCH_SIZE} and updating their priorities"
    sentences = []
    for size, what in ((max(stored), f" {subject}"), (min(stored), ", it")):
        ours, *theirs = (costs[Sampling(_updating(kind), size, BATCH_SIZE)] for kind in classes)
        compared = f", {compared_with('cpprb', float(np.median(theirs[0] / ours)))}" if theirs else ""
        sentences.append(f"With {size:,}{what} takes {1e6 * np.median(ours):.0f} microseconds{compared}.")
    return " ".join(sentences)


def requirements(
    costs: Costs, stored: Sequence[int], classes: Sequence[type[Prioritized]]
) -> list[Requirement]:
    """Return the requirements for the largest and the smallest buffers, with the measured ratios."""
    requirements = []
    for size, bound in ((max(stored), 1.2), (min(stored), 1.0)):
        ours = costs[Sampling(_updating(OursPrioritized), size, BATCH_SIZE)]
        for kind in classes:
            if kind is not OursPrioritized:
                cost = float(np.median(ours / costs[Sampling(_updating(kind), size, BATCH_SIZE)]))
                requirements.append(at_most(f"ours / {kind.name}, {size:,} stored", bound, cost))
    return requirements


def _updating(kind: type[Prioritized]) -> str:
    return f"{kind.name}: {UPDATING}"


def _cost_grid(costs: Costs, plan: Plan, classes: Sequence[type[Prioritized]]) -> Grid:
    header = ["buffer"]
    rows = [[kind.name] for kind in classes]
    for what, name_of in (("sample", lambda kind: kind.name), (UPDATING, _updating)):
        for stored in plan.stored:
            header += [f"{what}, {stored:,} stored [us]"]
            for row, kind in zip(rows, classes, strict=True):
                row.append(f"{1e6 * np.median(costs[Sampling(name_of(kind), stored, BATCH_SIZE)]):,.1f}")
    for stored in plan.stored:
        header += [f"ours / theirs, {stored:,} stored"]
        for row, kind in zip(rows, classes, strict=True):
            ours, theirs = (
                costs[Sampling(_updating(each), stored, BATCH_SIZE)] for each in (OursPrioritized, kind)
            )
            row.append(f"{np.median(ours / theirs):.3g}")
    return Grid(f"Microseconds for a batch of {BATCH_SIZE}", header, rows)


if __name__ == "__main__":
    main()
