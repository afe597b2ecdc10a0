"""Study of a recipe: steps and minutes until its task is solved, and success of the final policies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks.result_page import Grid, Requirement, at_least, at_most, spread
from benchmarks.studies import plots
from benchmarks.studies.results_file import RunResults, median
from benchmarks.studies.runs import Run
from benchmarks.studies.study import Study
from her_agents.recipes import read_recipe
from her_agents.results.comparison import draw_group, time_until
from her_agents.training.config import make_config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = Path("runs/recipes")
"""Folder of the checkpoints, from which an interrupted run continues."""

QUICK_STEPS = 2_000


class Target(NamedTuple):
    """The required results of a recipe; a field with None requires nothing."""

    success: float  # success rate of the final policies
    steps: int | None = None  # until the task is solved; by default those of a whole run
    minutes: float | None = None  # until the task is solved
    total_minutes: float | None = None  # of a whole run


TARGETS: dict[str, Target | None] = {
    "fetch_reach": Target(0.98),
    "fetch_push": Target(0.95, minutes=20, total_minutes=20),
    "fetch_pick_and_place": Target(0.95, steps=590_000, minutes=30, total_minutes=90),
    "fetch_pick_and_place_demos": Target(0.98, steps=120_000, minutes=8),
    "fetch_slide": Target(0.70),
    "hand_reach": None,
    "panda_pick_and_place": Target(0.95),
    "panda_push": Target(0.95),
    "parking": Target(0.95),
}
"""The targets of the recipes; None for a recipe without a public result to compare with."""


def make_study(seeds: int, *, quick: bool, name: str) -> Study:
    """Return the study of a recipe, with fewer steps and without checkpoints if ``quick``."""
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
    how = " with demonstrations" * ("demos" in recipe.options)
    question, file = f"How fast is {recipe.environment} solved{how}?", f"her_agents/recipes/{name}.toml"
    about, functions = f"Task: {recipe.task}", (_answer, _draw, _tabulate)
    return Study(f"recipe_{name}", question, about, file, runs, *functions, quick, recipe.package, _judge)


def _answer(results: RunResults) -> str:
    recipe, rates = read_recipe(str(results.all[0].run.labels["recipe"])), results.success
    steps, minutes = (solved_after(results, recipe.solved, minutes=each) for each in (False, True))
    rate = f"a success rate of {recipe.solved:.2f}"
    solved = (
        f"does not reach {rate}"
        if np.isinf(steps)
        else f"reaches {rate} after {steps:,.0f} steps and {minutes:.1f} minutes"
    )
    runs = "one run" if len(rates) == 1 else f"the median of {len(rates)} runs"
    return f"In {runs}, the recipe `{recipe.name}` {solved}, and ends with {spread(rates)}."


def _draw(results: RunResults) -> Figure:
    (name,) = results.by("recipe")
    figure, panels = plots.make_figure(read_recipe(name).environment)
    draw_group(panels[0, 0], results.logs(), name, 0)
    plots.finish_curves(panels)
    plots.add_legend(figure, panels.flat)
    return figure


def _tabulate(results: RunResults) -> Grid:
    (name,) = results.by("recipe")
    rate = read_recipe(name).solved
    groups = [(str(each.run.config.seed), RunResults([each])) for each in results.all]
    rows = []
    for label, group in [*groups, ("median", results)]:
        minutes = solved_after(group, rate, minutes=True)
        seconds = np.median([result.final.seconds for result in group.all])
        rows.append([
            label,
            steps_cell(solved_after(group, rate)),
            "" if np.isinf(minutes) else f"{minutes:.1f}",
            f"{np.median(group.env_steps):,.0f}",
            f"{seconds / 60:.1f}",
            spread(group.success),
        ])
    until, whole = f"until {rate:.2f}", "of the run"
    header = ["seed", f"steps {until}", f"minutes {until}", f"steps {whole}", f"minutes {whole}"]
    return Grid("Runs", [*header, "final success rate"], rows)


def steps_cell(steps: float) -> str:
    """Return a number of steps as a cell of a table."""
    return "not reached" if np.isinf(steps) else f"{steps:,.0f}"


def solved_after(results: RunResults, rate: float, *, minutes: bool = False) -> float:
    """Return the median of the steps or minutes until a success rate is reached; infinite if never."""
    return time_until(results.logs(), rate, minutes=minutes)[1].value


def _judge(results: RunResults) -> list[Requirement]:
    (name,) = results.by("recipe")
    target, steps, rate = TARGETS[name], results.all[0].run.config.steps, read_recipe(name).solved
    if target is None:
        return []
    solved, minutes = (solved_after(results, rate, minutes=each) for each in (False, True))
    found = [
        at_least(f"success within {steps:,} steps, median", target.success, median(results.success)),
        at_most(f"steps until {rate:.2f}, median", target.steps or steps, solved),
    ]
    if target.minutes is not None:
        found.append(at_most(f"minutes until {rate:.2f}, median", target.minutes, minutes))
    if target.total_minutes is not None:
        total = float(np.median([result.final.seconds for result in results.all])) / 60
        found.append(at_most("minutes of the run, median", target.total_minutes, total))
    return found
