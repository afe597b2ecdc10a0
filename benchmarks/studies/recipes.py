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

    from benchmarks.studies.runs import Point, RunResult

FOLDER = Path("runs/recipes")
"""Folder of the checkpoints, from which an interrupted training continues."""

QUICK_STEPS = 2_000


class Target(NamedTuple):
    """The target results of a recipe.

    Attributes:
        success: Success rate of the final policies.
        minutes: Wall-clock time [min] until the task is solved, and of the whole training; or None.
        hoped_steps: Steps until the task is solved that would be better than required, or None.
        hoped_minutes: Minutes until the task is solved that would be better than required, or None.
        hoped_success: Success rate that would be better than required, or None.
    """

    success: float
    minutes: float | None = None
    hoped_steps: int | None = None
    hoped_minutes: float | None = None
    hoped_success: float | None = None


TARGETS: dict[str, Target | None] = {
    "fetch_reach": Target(0.98),
    "fetch_push": Target(0.95, minutes=20, hoped_steps=100_000, hoped_minutes=8),
    "fetch_pick_and_place": Target(0.95, minutes=90, hoped_steps=400_000),
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


def solved_at(result: RunResult, rate: float) -> Point | None:
    """Return the first evaluation with a success rate of at least ``rate``, or None."""
    return next((point for point in result.curve if point.success_rate >= rate), None)


def _draw(results: RunResults) -> Figure:
    (name,) = results.by("recipe")
    title = f"{read_recipe(name).environment}: recipe {name}"
    return plots.draw_curves(title, [(results, plots.LineStyle(name, plots.BLUE))], results)


def _tabulate(results: RunResults) -> Grid:
    (name,) = results.by("recipe")
    rate = read_recipe(name).solved
    rows = []
    for result in results.all:
        solved = solved_at(result, rate)
        rows.append([
            str(result.run.config.seed),
            steps_cell(np.inf if solved is None else solved.env_steps),
            "" if solved is None else f"{solved.seconds / 60:.1f}",
            f"{result.final.env_steps:,}",
            f"{result.final.seconds / 60:.1f}",
            f"{result.final.success_rate:.2f}",
        ])
    to, of = f"to {rate:.2f}", "of the training"
    header = ["seed", f"steps {to}", f"minutes {to}", f"steps {of}", f"minutes {of}", "final success"]
    steps, minutes = (np.median(values) for values in solved_after(results, rate))
    total = np.median([result.final.seconds for result in results.all]) / 60
    middle = [
        "median",
        steps_cell(float(steps)),
        "" if np.isinf(minutes) else f"{minutes:.1f}",
        f"{median(results.env_steps):,.0f}",
        f"{total:.1f}",
        spread(results.success),
    ]
    return Grid("Trainings", header, [*rows, middle])


def steps_cell(steps: float) -> str:
    """Return a number of steps as a cell of a table."""
    return "not reached" if np.isinf(steps) else f"{steps:,.0f}"


def solved_after(results: RunResults, rate: float) -> tuple[list[float], list[float]]:
    """Return steps and minutes until the success rate of each training was ``rate``; infinite if never."""
    points = [solved_at(result, rate) for result in results.all]
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
        at_most(f"steps to {rate:.2f}, median", steps, solved, hoped=target.hoped_steps),
    ]
    if target.minutes is not None:
        total = float(np.median([result.final.seconds for result in results.all])) / 60
        found += [
            at_most(f"minutes to {rate:.2f}, median", target.minutes, minutes, hoped=target.hoped_minutes),
            at_most("minutes of the training, median", target.minutes, total),
        ]
    return found
