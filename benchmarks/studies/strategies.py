"""Figure 6 of the HER paper: goal selection strategies and numbers of relabeled goals, on PointPush."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.result_page import Grid, Requirement, at_least, spread
from benchmarks.studies import plots
from benchmarks.studies.reach import settings
from benchmarks.studies.results_file import RunResults, median
from benchmarks.studies.runs import WITHOUT_HER, Run
from benchmarks.studies.study import Study
from her_agents.training.config import make_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from benchmarks.studies.results_file import Floats

KS = (1, 2, 4, 8)
"""Numbers k of relabeled transitions for each original transition."""

SETTINGS = settings("PointPush", "ddpg") | {"steps": 256_000, "steps_per_epoch": 32_000}
"""Options of all runs. With this number of steps, the best variants nearly solve the task."""

QUICK = ("future", "random"), (1, 4)
"""Strategies and values of k with ``--quick``."""

STRATEGIES = ("future", "geometric", "episode", "final", "random")

MEASURED: dict[str, Callable[[RunResults], Floats]] = {
    "final policy": lambda results: results.success,
    "mean of all evaluations": RunResults.mean_over_run,
}
"""Functions that compute the values shown in the two panels, by title of the panel."""

ABOUT = """DDPG is trained to push a puck to random goals, with five goal selection strategies and several
values of k, as in figure 6 of Andrychowicz et al. 2017
([arXiv 1707.01495](https://arxiv.org/abs/1707.01495)); `geometric` is not in the paper. The right panel shows
the mean of all evaluations of a run, which is higher for faster learning. The settings were chosen for
`future` with k = 4; all variants use them."""


def make_study(seeds: int, *, quick: bool) -> Study:
    """Return the study of PointPush: goal selection strategies, each with several values of k."""
    strategies, ks = QUICK if quick else (STRATEGIES, KS)
    variants = [*product(strategies, ks), (WITHOUT_HER, 0)]
    runs = [_run(strategy, k, seed) for strategy, k in variants for seed in range(seeds)]
    question = "Which goal selection strategy solves PointPush?"
    file = "benchmarks/studies/strategies.py"
    return Study("strategies", question, ABOUT, file, runs, _answer, _draw, _tabulate, quick, judge=_judge)


def _run(strategy: str, k: int, seed: int) -> Run:
    her = {"goal_selection_strategy": strategy, "n_sampled_goal": k} if k else {"her": False}
    return Run({"strategy": strategy, "k": k}, make_config(SETTINGS, her, {"seed": seed}))


def _answer(results: RunResults) -> str:
    by_variant = {
        (strategy, k): float(np.median(each.success))
        for strategy, variant in results.by("strategy").items()
        for k, each in variant.by("k").items()
    }
    (best, best_k), rate = max(by_variant.items(), key=lambda item: item[1])
    return (
        f"`{best}` with k = {best_k} relabeled transitions per original transition has the highest success "
        f"rate, {rate:.2f}. The default, `future` with k = 4, has {by_variant['future', 4]:.2f}, and DDPG "
        f"without HER has {by_variant[WITHOUT_HER, 0]:.2f}."
    )


def _draw(results: RunResults) -> Figure:
    figure, (panels,) = plots.make_figure("Goal selection strategies: DDPG on PointPush", 1, 2, sharey=True)
    for axes, (title, measured) in zip(panels, MEASURED.items(), strict=True):
        axes.set_xscale("log", base=2)
        axes.set(title=title, xlabel="relabeled per original transition, k")
        ks = sorted({k for k in results.by("k") if k})
        for number, (strategy, variant) in enumerate(results.by("strategy").items()):
            by_k = dict.fromkeys(ks, variant) if strategy == WITHOUT_HER else variant.by("k")
            rates = [measured(each) for each in by_k.values()]
            plots.draw_spread(axes, list(by_k), rates, strategy, number)
        axes.set_xticks(ks, [str(k) for k in ks])
        axes.minorticks_off()
        plots.show_rates(axes)
    panels[0].set_ylabel("success rate")
    plots.add_legend(figure, panels, plots.SPREAD)
    return figure


def _tabulate(results: RunResults) -> Grid:
    ks = list(results.by("k"))
    rows = [
        [strategy, *(spread(variant.of(k=k).success) for k in ks)]
        for strategy, variant in results.by("strategy").items()
    ]
    return Grid("Success rates of the final policies", ["strategy", *(f"k = {k}" for k in ks)], rows)


def _judge(results: RunResults) -> list[Requirement]:
    future = results.of(strategy="future", k=4)
    return [at_least("median success rate of `future` with k = 4", 0.9, median(future.success))]
