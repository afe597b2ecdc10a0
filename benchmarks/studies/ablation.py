"""Ablation on FetchPush-v4: a reference, and variants of it that differ in one option each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.result_page import Grid, spread
from benchmarks.studies import plots
from benchmarks.studies.recipes import QUICK_STEPS, solved_after, steps_cell
from benchmarks.studies.results_file import median
from benchmarks.studies.runs import Run
from benchmarks.studies.study import Study
from her_agents.recipes import read_recipe
from her_agents.results.comparison import draw_group
from her_agents.training.config import make_config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.studies.results_file import RunResults

FOLDER = Path("runs/ablation")
"""Folder of the checkpoints, from which an interrupted run continues."""

RECIPE = "fetch_push"

REFERENCE = "reference"
"""Name of the runs that the variants are compared with."""

REFERENCE_OPTIONS: dict[str, Any] = {"goal_selection_strategy": "future", "updates_per_step": 0.25}
"""Options in which the reference differs from the recipe."""

STEPS = 500_000
"""Steps of each run; more than the recipe has, since some variants learn more slowly."""

VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "Sampling": {
        "without priorities": {"prioritized": False},
        "desired goals of other episodes": {
            "goal_selection_strategy": {"future": 0.4, "desired": 0.4, "original": 0.2}
        },
        "achieved goals of other episodes": {"goal_selection_strategy": {"future": 0.75, "random": 0.25}},
    },
    "Temperature": {
        "temperature 0.2": {"agent": {"temperature": 0.2}},
        "learned temperature": {"agent": {"learn_temperature": True}},
    },
    "Discount and number of updates": {
        "gamma 0.98": {"gamma": 0.98},
        "0.375 updates per step": {"updates_per_step": 0.375},
    },
    "Networks and targets": {
        "layer normalization": {"agent": {"layer_norm": True}},
        "targets not clipped": {"clip_targets": False},
    },
}
"""Options in which each variant differs from the reference, by title of the panel and name of the variant."""

OPTIONS = {REFERENCE: {}, **{name: options for panel in VARIANTS.values() for name, options in panel.items()}}

ABOUT = """The reference has the options of the recipe [`fetch_push`](../recipes.md), except that it relabels
with future goals only, makes 0.25 instead of 0.375 updates per step, and trains the actor in every update
instead of every second one.

## Tried, and not adopted

Three methods from papers, each added to the recipe:

- Next-Future ([arXiv 2504.11247](https://arxiv.org/abs/2504.11247)): a quarter of the new goals are
  goals that the step itself achieves, in its next state.
- Hindsight self-imitation ([arXiv 2508.06108](https://arxiv.org/abs/2508.06108)): a behavior cloning loss
  with weight 1, for relabeled transitions whose action has a higher Q value than the policy's action.
- CrossQ ([arXiv 1902.05605](https://arxiv.org/abs/1902.05605)): batch renormalization in the critics, and no
  target networks ([crossq.py](../../benchmarks/studies/crossq.py)). An update takes 2.8 times as long.

"Not in 100,000: 0.04": the success rate after 100,000 steps is 0.04.

| steps until 0.95 | seed 0 | seed 2 |
|---|---|---|
| the recipe | 120,000 (0.70 after 100,000) | 70,000 |
| with Next-Future | not in 100,000: 0.04 | 90,000 |
| with hindsight self-imitation | not in 100,000: 0.62 | 80,000 |
| with CrossQ | 80,000 | not in 70,000: 0.84 |

With seeds 1, 3 and 4, CrossQ needs 80,000, 60,000 and 80,000 steps, the recipe 120,000, 80,000 and 80,000.

With `--precision bf16`, the recipe learns as fast: it needs 130,000, 110,000, 70,000, 80,000 and 70,000 steps
with seeds 0 to 4, and ends with success rates of 0.97 to 1.00. It is not the default, since results then
depend on the processor.

Evaluations: [not_adopted.csv](not_adopted.csv)."""


def make_study(seeds: int, *, quick: bool) -> Study:
    """Return the study, with fewer steps and without checkpoints if ``quick``."""
    recipe = read_recipe(RECIPE)
    recipe.require_installed()
    # In the recipe, the actor learns in every second update only.
    agent = {name: value for name, value in recipe.options["agent"].items() if name != "policy_delay"}
    reference = [recipe.options | {"agent": agent}, REFERENCE_OPTIONS]
    length = {"steps": QUICK_STEPS, "learning_starts": QUICK_STEPS // 2} if quick else {"steps": STEPS}
    runs = [
        Run(
            {"variant": name},
            make_config(*reference, options, length, {"seed": seed}),
            None if quick else FOLDER / f"{name.replace(' ', '_')}-{seed}",
        )
        for name, options in OPTIONS.items()
        for seed in range(seeds)
    ]
    question, file = "Which options matter for FetchPush?", "benchmarks/studies/ablation.py"
    functions = _answer, _draw, _tabulate
    return Study("ablation", question, ABOUT, file, runs, *functions, quick, recipe.package)


def _answer(results: RunResults) -> str:
    rate = read_recipe(RECIPE).solved
    steps = {name: solved_after(variant, rate) for name, variant in results.by("variant").items()}
    slowest = max(steps, key=lambda name: steps[name])
    (seeds,) = {len(variant.all) for variant in results.by("variant").values()}
    return (
        f"The {REFERENCE} agent, with nearly the options of the recipe `{RECIPE}`, reaches a success rate of "
        f"{rate:.2f} after {steps_cell(steps[REFERENCE])} steps. Each variant changes one option; the "
        f'slowest, "{slowest}", needs {steps_cell(steps[slowest])} steps. Each variant has '
        f"{'one run, so small differences may be chance' if seeds == 1 else f'{seeds} runs'}."
    )


def _draw(results: RunResults) -> Figure:
    by_variant = results.by("variant")
    figure, panels = plots.make_figure(
        "FetchPush-v4: a reference and its variants", 2, 2, height=8, sharex=True, sharey=True
    )
    for axes, (title, variants) in zip(panels.flat, VARIANTS.items(), strict=True):
        for number, name in enumerate((REFERENCE, *variants)):
            if name in by_variant:
                draw_group(axes, by_variant[name].logs(), name, number)
        # Above the panel, since the curves need all of it.
        axes.legend(title=title, loc="lower center", bbox_to_anchor=(0.5, 1), frameon=False)
    plots.finish_curves(panels)
    return figure


def _tabulate(results: RunResults) -> Grid:
    rate = read_recipe(RECIPE).solved
    rows = [
        [
            name,
            steps_cell(solved_after(variant, rate)),
            f"{median(variant.env_steps):,.0f}",
            spread(variant.success),
        ]
        for name, variant in results.by("variant").items()
    ]
    header = ["variant", f"steps until {rate:.2f}", "steps of the run", "final success rate"]
    return Grid("Variants", header, rows)
