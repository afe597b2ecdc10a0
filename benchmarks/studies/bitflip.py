"""Figure 1 of the HER paper: success of DQN against the number of bits, with and without HER."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.result_page import Grid, spread
from benchmarks.studies import plots
from benchmarks.studies.results_file import RunResults
from benchmarks.studies.runs import WITH_HER, WITHOUT_HER, Run
from benchmarks.studies.study import Study
from her_agents.training.config import make_config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUMBERS = (5, 10, 13, 15, 20, 25, 30, 40, 50)
"""Numbers of bits to measure."""

QUICK = (5, 10, 15, 20)
"""Numbers of bits with ``--quick``."""

SETTINGS: dict[str, Any] = {
    "env": "her_envs/BitFlipping-v0",
    "algo": "dqn",
    "num_envs": 64,
    "updates_per_step": 0.05,
    "batch_size": 512,
    "evaluation_episodes": 100,
    "agent": {"hidden": [512], "epsilon": 0.7},
}
"""Options that are equal for all numbers of bits."""

GOALS = (WITH_HER, WITHOUT_HER)

ABOUT = """The state and the goal are sequences of n bits, an action flips one bit of the state, and the
reward is -1 in every step before the goal is reached, as in figure 1 of Andrychowicz et al. 2017
([arXiv 1707.01495](https://arxiv.org/abs/1707.01495)). DQN without HER must reach the goal by chance, with
probability 2^-n per state; with HER, every episode gives transitions that reach their relabeled goal. A run
ends when the task is solved, or after the larger of 100,000 and 100 n^2 steps. Runs in the paper are much
longer (160,000 episodes); there, DQN without HER solved up to 13 bits."""


def make_study(seeds: int, *, quick: bool) -> Study:
    """Return the study of BitFlipping: DQN with and without HER, for several numbers of bits."""
    numbers = QUICK if quick else NUMBERS
    runs = [_run(n, goals, seed) for n in numbers for goals in GOALS for seed in range(seeds)]
    question = "How many bits does DQN solve with and without HER?"
    file = "benchmarks/studies/bitflip.py"
    return Study("bitflip", question, ABOUT, file, runs, _answer, _draw, _tabulate, quick)


def settings(n: int) -> dict[str, Any]:
    """Return the options for n bits; the number of steps lets DQN without HER solve up to 10 bits."""
    steps = {"steps": max(100_000, 100 * n**2), "steps_per_epoch": max(2_000, 8 * n**2)}
    return {**SETTINGS, **steps, "env_kwargs": {"n_bits": n}}


def _run(n: int, goals: str, seed: int) -> Run:
    chosen = {"her": goals == WITH_HER, "seed": seed}
    return Run({"n": n, "goals": goals}, make_config(settings(n), chosen))


def _answer(results: RunResults) -> str:
    with_her, without = (_solved(results.of(goals=goals)) for goals in GOALS)
    return (
        f"With HER, DQN solves BitFlipping with up to {with_her} bits; "
        f"without HER, with up to {without} bits."
    )


def _solved(results: RunResults) -> int:
    """Return the largest number of bits with a median success rate of at least 0.95, or 0."""
    return max((n for n, each in results.by("n").items() if np.median(each.success) >= 0.95), default=0)


def _draw(results: RunResults) -> Figure:
    figure, ((axes,),) = plots.make_figure("Success of DQN against the number of bits")
    for number, (goals, variant) in enumerate(results.by("goals").items()):
        by_n = variant.by("n")
        plots.draw_spread(axes, list(by_n), [each.success for each in by_n.values()], goals, number)
    axes.set(xlabel="number of bits n", ylabel="success rate of the greedy policy", xlim=(0, None))
    axes.set_xticks(list(results.by("n")))
    plots.show_rates(axes)
    plots.add_legend(figure, [axes], plots.SPREAD)
    return figure


def _tabulate(results: RunResults) -> Grid:
    header = ["bits"]
    for goals in GOALS:
        header += [f"{goals}: success rate", "environment steps", "processor seconds"]
    rows = []
    for n, both in results.by("n").items():
        variants = [both.of(goals=goals) for goals in GOALS]
        rows.append([str(n), *chain.from_iterable(map(_cells, variants))])
    return Grid("Success rates and cost of each number of bits", header, rows)


def _cells(variant: RunResults) -> list[str]:
    return [
        spread(variant.success),
        spread(variant.env_steps, ",.0f"),
        spread(variant.processor_seconds, ".0f"),
    ]
