"""The trainings of a recipe: steps and minutes until it is solved, and the success of the final policies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks.result_page import Grid, Requirement, at_least, at_most, spread
from benchmarks.studies import plots
from benchmarks.studies.results_file import RunResults, median
from benchmarks.studies.runs import Run
from benchmarks.studies.study import Study
from her_agents.config import make_config
from her_agents.recipes import read_recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = Path("runs/recipes")
"""Folder of the checkpoints, from which an interrupted training continues."""

QUICK_STEPS = 2_000


class Target(NamedTuple):
    """The target results of a recipe.

    Attributes:
        success: Success rate of the final policies.
        steps: Steps until the task is solved; by default those of a whole run.
        minutes: Wall-clock time [min] until the task is solved, or None.
        total_minutes: Wall-clock time [min] of a whole run, or None.
        hoped_steps: Steps until the task is solved that would be better than required, or None.
        hoped_minutes: Minutes until the task is solved that would be better than required, or None.
        hoped_success: Success rate that would be better than required, or None.
    """

    success: float
    steps: int | None = None
    minutes: float | None = None
    total_minutes: float | None = None
    hoped_steps: int | None = None
    hoped_minutes: float | None = None
    hoped_success: float | None = None


TARGETS: dict[str, Target | None] = {
    "fetch_reach": Target(0.98),
    "fetch_push": Target(0.95, minutes=20, total_minutes=20, hoped_steps=100_000, hoped_minutes=8),
    "fetch_pick_and_place": Target(0.95, minutes=90, total_minutes=90, hoped_steps=400_000),
    "fetch_pick_and_place_demos": Target(0.98, steps=120_000, minutes=8, hoped_steps=60_000, hoped_minutes=4),
    "fetch_slide": Target(0.70, hoped_success=0.88),
    "hand_reach": None,
    "panda_pick_and_place": Target(0.95),
    "panda_push": Target(0.95),
    "parking": Target(0.95, hoped_steps=25_000),
}
"""The targets of the recipes; None without a public result to compare with."""


def make_study(seeds: int, *, quick: bool, name: str) -> Study:
    """Return the study of a recipe.

    Args:
        seeds: Number of trainings.
        quick: Whether to train for fewer steps; the checkpoints are not kept.
        name: Name of the recipe.

    Raises:
        ValueError: The recipe does not exist, or its package is not installed.
    """
    recipe = read_recipe(name)
    recipe.require_installed()
    shorter = {"steps": QUICK_STEPS, "learning_starts": QUICK_STEPS // 2} if quick else {}
    runs = [
        Run(
            {"recipe": name},
            make_config(recipe.options, shorter, {"seed": seed}),
            None if quick else FOLDER / f"{name}-{seed}",
        )
        for seed in range(seeds)
    ]
    title = f"Recipe {name}"
    return Study(f"recipe_{name}", title, recipe.task, runs, _draw, _tabulate, _judge, quick, recipe.package)


def _draw(results: RunResults) -> Figure:
    (name,) = results.by("recipe")
    figure, ((axes,),) = plots.make_figure(f"{read_recipe(name).environment}: recipe {name}")
    plots.draw_curve(axes, results, plots.LineStyle(name, plots.BLUE))
    axes.set(xlabel=plots.STEPS_LABEL, ylabel="success rate of the greedy policy")
    plots.show_steps(axes)
    plots.show_rates(axes)
    plots.add_legend(figure, [axes], results)
    return figure


def _tabulate(results: RunResults) -> Grid:
    (name,) = results.by("recipe")
    rate = read_recipe(name).solved
    finals = [result.final for result in results.all]
    columns: list[list[float]] = [  # steps and minutes until solved, and of the whole run
        *solved_after(results, rate),
        [final.env_steps for final in finals],
        [final.seconds / 60 for final in finals],
    ]
    names = [str(result.run.config.seed) for result in results.all]
    success = [f"{final.success_rate:.2f}" for final in finals]
    rows = [
        [
            name,
            steps_cell(steps),
            "" if np.isinf(minutes) else f"{minutes:.1f}",
            f"{all_steps:,.0f}",
            f"{all_minutes:.1f}",
            rate_cell,
        ]
        for name, steps, minutes, all_steps, all_minutes, rate_cell in zip(
            [*names, "median"],
            *([*column, float(np.median(column))] for column in columns),
            [*success, spread(results.success)],
            strict=True,
        )
    ]
    to, of = f"to {rate:.2f}", "of the training"
    header = ["seed", f"steps {to}", f"minutes {to}", f"steps {of}", f"minutes {of}", "final success"]
    return Grid("Trainings", header, rows)


def steps_cell(steps: float) -> str:
    """Return a number of steps as a cell of a table."""
    return "not reached" if np.isinf(steps) else f"{steps:,.0f}"


def solved_after(results: RunResults, rate: float) -> tuple[list[float], list[float]]:
    """Return steps and minutes until the success rate of each training was ``rate``; infinite if never."""
    points = [
        next((point for point in result.curve if point.success_rate >= rate), None) for result in results.all
    ]
    return (
        [np.inf if point is None else point.env_steps for point in points],
        [np.inf if point is None else point.seconds / 60 for point in points],
    )


def _judge(results: RunResults) -> list[Requirement]:
    (name,) = results.by("recipe")
    target, steps, rate = TARGETS[name], results.all[0].run.config.steps, read_recipe(name).solved
    if target is None:
        return []
    solved, minutes = (float(np.median(each)) for each in solved_after(results, rate))
    what, success = f"success within {steps:,} steps, median", median(results.success)
    found = [
        at_least(what, target.success, success, hoped=target.hoped_success),
        at_most(f"steps to {rate:.2f}, median", target.steps or steps, solved, hoped=target.hoped_steps),
    ]
    if target.minutes is not None:
        promised = f"minutes to {rate:.2f}, median"
        found.append(at_most(promised, target.minutes, minutes, hoped=target.hoped_minutes))
    if target.total_minutes is not None:
        total = float(np.median([result.final.seconds for result in results.all])) / 60
        found.append(at_most("minutes of the training, median", target.total_minutes, total))
    return found
