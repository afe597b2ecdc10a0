"""Time to solve bit flipping with DQN and HER: this project's, and Stable-Baselines3's, in one run.

For example:

    python -m benchmarks.time_to_solve --quick                 3 bits and one seed, to see that it runs
    python -m benchmarks.time_to_solve --seeds 10              more seeds than the page has

Both learn `her_envs/BitFlipping-v0` with random goals, Stable-Baselines3 (SB3) with its own DQN and
its own HerReplayBuffer, this project with `her_agents.DQN` and HindsightReplayBuffer. Every 500
steps the greedy policy plays the same 100 episodes for both; the first time that it reaches 0.95 or more,
and in 200 further episodes too, the task is solved. A training that is not solved within its budget of
processor time is shown as such, with the time that it spent. Clocks stand still while a policy is looked at,
and begin when everything is made. One thread.

At equal settings both have 16 environments, one hidden layer of 256, batches of 128, a learning rate of
0.001, a discount of 0.98, 4 relabeled transitions for every original one, an update for every 4 steps after
the first 1,000, the target network moved by 0.05 with every update (with SB3 as much once after every four),
and one action in five random. What differs is what the two are. This project steps environments that are
natively vectorised, where SB3 steps one after the other. Its DQN normalises its inputs, clips targets to
possible returns, lets one network choose the next action and the other value it, and squares errors; SB3's
is plain DQN with Huber's loss and clipped gradients, and sees the achieved goal too, which is the
observation once more. Its buffer recomputes whether relabeled transitions terminate.

The best settings were looked for in the same way for both: 30 drawn at random (16 to 128 environments,
batches of 128 to 512, learning rates of 0.001 to 0.01, one layer of 128 to 512, discounts of 0.9 to 0.98, 4
or 8 relabeled transitions, 0.025 to 0.2 updates a step, 0.1 to 0.6 of the actions random, target networks
moved by 0.05 to 0.5 or replaced at intervals of up to 1,000 steps), each tried with both and one seed; then
seven of the best and four more between them, with both and three seeds. Each has the one with its least
median time. The seeds here are others. Tried with SB3 alone, one seed, a look every 5,000 steps, and slower:
two layers of 256 with the target network replaced every 500 or 800 steps (solved by 10,000 steps, in 9 to 11
s), and the settings of SB3's own test of HER, which are for 10 bits and one goal (0.27 after 20,000 steps and
49 s).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import torch

from benchmarks.benchmark import Benchmark, count
from benchmarks.sb3_training import OURS, SB3
from benchmarks.solving import Result, Settings, Trial, train_ours, train_sb3
from her_agents.studies.result_page import Claim, Grid, at_least, claim_grid, spread

BENCHMARK = Benchmark("time_to_solve", "Time to solve bit flipping", __doc__, ("stable-baselines3",))
LOOK_EVERY = 500  # steps
LEAST_SPEEDUP = 5
FIRST_SEED = 10  # settings were chosen with those below
EQUAL, BEST = "equal settings", "best settings"

Results: TypeAlias = Mapping[tuple[str, str], list[Result]]
"""Of the seeds, by kind of settings and contender."""

CONTENDERS: dict[str, Callable[[Settings, int, Callable[[], Trial], int], Result]] = {
    OURS: train_ours,
    SB3: train_sb3,
}

SETTINGS = {
    EQUAL: {
        OURS: Settings(agent={"epsilon": 0.2, "tau": 0.05}),
        SB3: Settings(
            agent={
                "exploration_initial_eps": 0.2,
                "exploration_final_eps": 0.2,
                "tau": 1 - (1 - 0.05) ** 4,  # once for the four updates after a step of all environments
                "target_update_interval": 16,
            }
        ),
    },
    BEST: {
        OURS: Settings(
            num_envs=32,
            batch_size=256,
            learning_rate=0.01,
            gamma=0.95,
            updates=2,
            learning_starts=512,
            agent={"epsilon": 0.4, "tau": 0.2},
        ),
        SB3: Settings(
            num_envs=32,
            hidden=(512,),
            batch_size=256,
            learning_rate=0.005,
            gamma=0.95,
            updates=1,
            learning_starts=512,
            agent={
                "exploration_initial_eps": 0.3,
                "exploration_final_eps": 0.3,
                "tau": 0.2,
                "target_update_interval": 32,  # each step of all environments
            },
        ),
    },
}
"""By kind and contender."""


def measure(bits: int, seeds: int, every: int, budget: float) -> Results:
    """Train with each at all settings, taking turns; return the results of the seeds."""
    pairs = [(kind, name) for kind in SETTINGS for name in CONTENDERS]
    results: dict[tuple[str, str], list[Result]] = {pair: [] for pair in pairs}
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        for kind, name in pairs:
            trial = partial(Trial, bits, every, budget)
            results[kind, name].append(CONTENDERS[name](SETTINGS[kind][name], bits, trial, seed))
    return results


def outcome_grid(results: Results) -> Grid:
    """Return what it took to solve the task."""
    rows = [
        [
            kind,
            name,
            f"{sum(run.solved for run in runs)} of {len(runs)}",
            spread([run.seconds for run in runs], ".1f"),
            spread([run.wall for run in runs], ".1f"),
            spread([run.steps for run in runs], ",.0f"),
            spread([run.updates for run in runs], ",.0f"),
            spread([run.success for run in runs]),
        ]
        for (kind, name), runs in results.items()
    ]
    measured = ("solved", "processor s", "wall s", "environment steps", "updates", "success in the end")
    return Grid("What it took", ["settings", "agent and buffer", *measured], rows)


def part_grid(results: Results) -> Grid:
    """Return where the time goes."""
    rows = []
    for (kind, name), runs in results.items():
        steps, updates = sum(run.steps for run in runs), sum(run.updates for run in runs)
        parts = np.sum([[run.collecting, run.sampling, run.updating] for run in runs], axis=0)
        costs = 1e6 * parts / (steps, updates, updates)
        shares = ", ".join(f"{share:.0%}" for share in parts / parts.sum())
        rows.append([kind, name, *(f"{cost:,.0f}" for cost in costs), shares])
    measured = ("us a step collecting", "us a batch sampled", "us an update besides")
    header = ["settings", "agent and buffer", *measured, "collecting, sampling, updating"]
    return Grid("Where the time goes", header, rows)


def speedup(results: Results, kind: str, what: str) -> float:
    """Return how many times as long Stable-Baselines3 takes, by the medians."""
    ours, theirs = (np.median([getattr(run, what) for run in results[kind, name]]) for name in (OURS, SB3))
    return float(theirs / ours)


def claims(results: Results) -> list[Claim]:
    """Return what is promised beside what was measured: processor time at the best settings."""
    return [
        at_least(
            f"{kind}, {clock} time: times as soon solved as with {SB3}",
            LEAST_SPEEDUP if (kind, what) == (BEST, "seconds") else None,
            speedup(results, kind, what),
        )
        for kind in SETTINGS
        for clock, what in (("processor", "seconds"), ("wall", "wall"))
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, show, and write the page."""
    options = BENCHMARK.parse(
        arguments,
        quick="3 bits, one seed: seconds rather than minutes",
        bits={"type": count, "default": 15, "help": "bits to flip [%(default)s]"},
        seeds={"type": count, "default": 5, "help": "trainings of each [%(default)s]"},
        budget={"type": float, "default": 60, "help": "processor seconds of one [%(default)s]"},
    )
    torch.set_num_threads(1)
    bits, seeds = (3, 1) if options.quick else (options.bits, options.seeds)
    results = measure(bits, seeds, LOOK_EVERY, options.budget)
    grids = [
        claim_grid(claims(results), quick=options.quick),
        outcome_grid(results),
        part_grid(results),
    ]
    run = (
        f"{bits} bits; medians of {seeds} seeds, least and largest in brackets; "
        f"a budget of {options.budget:g} processor seconds each"
    )
    BENCHMARK.publish(options, grids, {"run": run})


if __name__ == "__main__":
    main()
