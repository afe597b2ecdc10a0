"""Our buffer with priorities against cpprb's, in one run.

For example:

    make bench-priorities                                  which installs the other libraries first
    python -m benchmarks.replay_priorities --quick         to see that it runs, with those that are installed
    python -m benchmarks.replay_priorities --out a.md      some minutes

**What is stored** is what [the buffers without priorities](replay.md) hold: episodes of 50 steps, 25-float
observations, 3-float goals, 4-float actions. Before anything is timed, all rows get priorities, drawn from an
exponential distribution by seed 0, and of 10,240 rows that are sampled then, the share of the likeliest tenth
is compared with what the formula says; for the buffers that relabel, their rows are checked as well.

**What is timed.** *Sampling*: `sample(256)`, with weights. *Sampling and updating*: `sample(256)`, and
`update_priorities` of that batch with fresh numbers, which were drawn beforehand. This is what a learner does
all the time; ours draws batches ahead where priorities are not updated in between.

**How.** One thread. All contenders take turns, each with a few batches before its time begins; every ratio is
taken within one turn, so that a busy machine slows both sides; the tables give medians over the turns.
Python's garbage collector rests meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

import numpy as np

from benchmarks.benchmark import Benchmark
from benchmarks.replay import FULL, QUICK, Plan
from benchmarks.replay_buffers.contender import check_relabeling
from benchmarks.replay_buffers.prioritized import OursPrioritized, Prioritized, check_priorities
from benchmarks.replay_task import make_episodes
from benchmarks.replay_work import Costs, Sampling, sampling
from benchmarks.timing import Work, measure
from her_agents.studies.result_page import Claim, Grid, at_most, claim_grid

BENCHMARK = Benchmark(
    "replay_priorities", "The replay buffer with priorities against cpprb's", __doc__, ("cpprb",)
)
BATCH_SIZE = 256
UPDATING = "sample and update"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, show, and write the page."""
    options = BENCHMARK.parse(arguments, quick="seconds rather than minutes; small and rough")
    plan, kinds = (QUICK if options.quick else FULL), contenders()
    buffers, works = _filled(kinds, plan)
    costs = measure(works, plan.pace)
    grids = [
        claim_grid(claims(costs, plan.stored, kinds), quick=options.quick),
        _cost_grid(costs, plan, kinds),
        Grid("Buffers", ["buffer", "what was measured"], [*map(list, buffers.items())]),
    ]
    BENCHMARK.publish(options, grids, {"run": str(plan.pace)})


def contenders() -> list[type[Prioritized]]:
    """Return ours, and cpprb's where it is installed."""
    kinds: list[type[Prioritized]] = [OursPrioritized]
    if find_spec("cpprb") is not None:
        peer = import_module("benchmarks.replay_buffers.cpprb_prioritized")
        kinds += [peer.CpprbPrioritized, peer.CpprbPlain]
    return kinds


def _filled(kinds: Sequence[type[Prioritized]], plan: Plan) -> tuple[dict[str, str], dict[Sampling, Work]]:
    """Return what the buffers are, in words, and the works to be timed."""
    np.random.seed(0)  # noqa: NPY002 - the peer draws from NumPy's global generator
    buffers, works = {}, {}
    for kind in kinds:
        for stored in plan.stored:
            buffer = kind(stored)
            buffer.fill(stored, make_episodes(100))
            share = check_priorities(buffer, np.random.default_rng(0).exponential(size=stored))
            if kind.name != "cpprb, plain":
                check_relabeling(buffer)
            works[Sampling(kind.name, stored, BATCH_SIZE)] = sampling(buffer, BATCH_SIZE)
            works[Sampling(_updating(kind), stored, BATCH_SIZE)] = sampling_and_updating(buffer)
        buffers[kind.name] = f"{kind.setting}; the likeliest tenth is {share:.3f} of what it samples"
    return buffers, works


def sampling_and_updating(buffer: Prioritized) -> Work:
    """Return the work of drawing batches, each with an update of its priorities."""
    fresh = np.random.default_rng(1).exponential(size=(64, BATCH_SIZE))

    def run(calls: int) -> None:
        for i in range(calls):
            buffer.update(buffer.index(buffer.sample(BATCH_SIZE)), fresh[i % len(fresh)])

    return Work(run)


def claims(costs: Costs, stored: Sequence[int], kinds: Sequence[type[Prioritized]]) -> list[Claim]:
    """Return the promises for the largest and the smallest buffers, with the measured ratios."""
    found = []
    for size, promised, hoped in ((max(stored), 1.2, 0.8), (min(stored), 1.0, None)):
        ours = costs[Sampling(_updating(OursPrioritized), size, BATCH_SIZE)]
        what = f"sample({BATCH_SIZE}) and update_priorities of {size:,}: cost over"
        for kind in kinds:
            if kind is not OursPrioritized:
                cost = float(np.median(ours / costs[Sampling(_updating(kind), size, BATCH_SIZE)]))
                found.append(at_most(f"{what} {kind.name}", promised, cost, hoped=hoped))
    return found


def _updating(kind: type[Prioritized]) -> str:
    return f"{kind.name}: {UPDATING}"


def _cost_grid(costs: Costs, plan: Plan, kinds: Sequence[type[Prioritized]]) -> Grid:
    header = ["buffer"]
    rows = [[kind.name] for kind in kinds]
    for what, name_of in (("sample", lambda kind: kind.name), (UPDATING, _updating)):
        for stored in plan.stored:
            header += [f"{what}, of {stored:,} [us]"]
            for row, kind in zip(rows, kinds, strict=True):
                row.append(f"{1e6 * np.median(costs[Sampling(name_of(kind), stored, BATCH_SIZE)]):,.1f}")
    return Grid(f"A batch of {BATCH_SIZE}", header, rows)


if __name__ == "__main__":
    main()
