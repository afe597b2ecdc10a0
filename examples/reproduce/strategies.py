"""Figure 6 of the HER paper: which goals to relabel with, and how many, on a task where a puck is pushed."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from examples.reproduce.outcomes import Outcomes, median
from examples.reproduce.plots import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    Look,
    add_legend,
    draw_level,
    draw_spread,
    make_figure,
    show_rates,
)
from examples.reproduce.reach import settings
from examples.reproduce.runs import WITHOUT_HER, Run
from examples.reproduce.study import Study
from examples.results import Claim, Grid, at_least, at_most, spread
from examples.training.config import make_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from examples.reproduce.outcomes import Floats

KS = (1, 2, 4, 8)
"""Relabeled transitions for every original one."""

SETTINGS = settings("PointPush", "ddpg") | {"steps": 256_000, "steps_per_epoch": 32_000}
"""For all runs; after so many steps the best have nearly learned it, and the others show."""

QUICK = ("future", "random"), (1, 4)
"""Strategies and k of a quick look."""

LOOKS = {
    "future": Look("future", BLUE, "-", "o"),
    "geometric": Look("geometric", GREEN, "-", "^"),
    "episode": Look("episode", ORANGE, "-.", "D"),
    "final": Look("final", PURPLE, "--", "v"),
    "random": Look("random", VERMILLION, ":", "X"),
    WITHOUT_HER: Look(WITHOUT_HER, GREY, "--"),
}
"""All strategies; that without HER has k = 0."""

MEASURED: dict[str, Callable[[Outcomes], Floats]] = {
    "trained policy": lambda outcomes: outcomes.success,
    "mean over the training": Outcomes.mean_over_training,
}
"""What the two panels show, by their titles."""

ABOUT = """DDPG pushes a puck to random goals, with relabeled goals chosen in five ways, k for every original
one: after figure 6 of Andrychowicz et al. 2017 ([arXiv 1707.01495](https://arxiv.org/abs/1707.01495)), which
has no `geometric`. On the left is what the trained policies do; on the right the mean of all evaluations
while they learned, which is higher the sooner one learns. Settings are those that were found for `future`
with k = 4; all arms have them."""


def make_study(seeds: int, *, quick: bool) -> Study:
    """Return the study, of two strategies and two k if it is to be quick."""
    strategies, ks = QUICK if quick else ([name for name in LOOKS if name != WITHOUT_HER], KS)
    arms = [*product(strategies, ks), (WITHOUT_HER, 0)]
    runs = [_run(strategy, k, seed) for strategy, k in arms for seed in range(seeds)]
    title = "Pushing a puck: which goals to relabel with"
    return Study("strategies", title, ABOUT, runs, _draw, _tabulate, _judge, quick)


def _run(strategy: str, k: int, seed: int) -> Run:
    her = {"strategy": strategy, "k": k} if k else {"her": False}
    return Run({"strategy": strategy, "k": k}, make_config(SETTINGS, her, {"seed": seed}))


def _draw(outcomes: Outcomes) -> Figure:
    figure, (panels,) = make_figure("Which goals to relabel with: DDPG on PointPush", 1, 2, sharey=True)
    for axes, (title, measured) in zip(panels, MEASURED.items(), strict=True):
        axes.set_xscale("log", base=2)
        axes.set(title=title, xlabel="relabeled per original transition, k")
        ks = sorted({k for k in outcomes.by("k") if k})
        for strategy, arm in outcomes.by("strategy").items():
            if strategy == WITHOUT_HER:
                draw_level(axes, measured(arm), LOOKS[strategy])
            else:
                by_k = arm.by("k")
                draw_spread(axes, list(by_k), [measured(each) for each in by_k.values()], LOOKS[strategy])
        axes.set_xticks(ks, [str(k) for k in ks])
        axes.minorticks_off()
        show_rates(axes)
    panels[0].set_ylabel("success rate")
    add_legend(figure, panels, outcomes)
    return figure


def _tabulate(outcomes: Outcomes) -> Grid:
    ks = list(outcomes.by("k"))
    rows = [
        [strategy, *(spread(arm.of(k=k).success) for k in ks)]
        for strategy, arm in outcomes.by("strategy").items()
    ]
    return Grid("Success of the trained policies", ["strategy", *(f"k = {k}" for k in ks)], rows)


def _judge(outcomes: Outcomes) -> list[Claim]:
    future = outcomes.of(strategy="future", k=4)
    return [
        at_least("future, k = 4: median success", 0.9, median(future.success)),
        at_most("without HER: median success", 0.5, median(outcomes.of(strategy=WITHOUT_HER).success)),
    ]
