"""FetchReach of Gymnasium-Robotics, with and without HER: a simulated arm with sparse rewards."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benchmarks.result_page import Grid, Requirement, at_least, spread
from benchmarks.studies import plots
from benchmarks.studies.results_file import RunResults, median
from benchmarks.studies.runs import WITH_HER, WITHOUT_HER, Run
from benchmarks.studies.study import Study
from her_agents.config import make_config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASK = "FetchReach-v4"

SETTINGS: dict[str, Any] = {
    "env": f"gymnasium_robotics:{TASK}",
    "algo": "sac",
    "steps": 20_000,
    "steps_per_epoch": 1_600,
    "evaluation_episodes": 25,
    "termination": "never",
}
"""Options for all runs. Episodes never terminate, so ``compute_terminated`` is not called."""

QUICK: dict[str, Any] = {"steps": 6_400}
"""Options with ``--quick``."""

STYLES = {
    WITH_HER: plots.LineStyle(WITH_HER, plots.BLUE, "-"),
    WITHOUT_HER: plots.LineStyle(WITHOUT_HER, plots.VERMILLION, "--"),
}

ABOUT = """A simulated arm moves its gripper to a goal position. This is a task of Plappert et al. 2018
([arXiv 1802.09464](https://arxiv.org/abs/1802.09464)) in Gymnasium-Robotics, with rewards of 0 at the goal
and -1 elsewhere."""


def make_study(seeds: int, *, quick: bool) -> Study:
    """Return the study of FetchReach: SAC with and without HER.

    Args:
        seeds: Number of seeds of each variant.
        quick: Whether to use fewer steps.

    Raises:
        ValueError: A package is not installed, or the version of mujoco is not supported.
    """
    require_packages()
    chosen = QUICK if quick else {}
    runs = [_run(goals, {**chosen, "seed": seed}) for goals in STYLES for seed in range(seeds)]
    title = f"{TASK}: SAC with and without HER"
    return Study("fetch", title, ABOUT, runs, _draw, _tabulate, _judge, quick, "gymnasium_robotics")


def require_packages() -> None:
    """Check that a supported version of the simulator is installed.

    Raises:
        ValueError: A package is not installed, or the version of mujoco is not supported.
    """
    needed = "Fetch needs gymnasium-robotics and mujoco below 3.12"
    advice = 'run: pip install "her-toolkit[fetch]"'
    for name in ("gymnasium_robotics", "mujoco"):
        if find_spec(name) is None:
            raise ValueError(f"{needed}, but {name} is not installed; {advice}")
    found = version("mujoco")
    if tuple(int(part) for part in found.split(".")[:2]) >= (3, 12):
        raise ValueError(f"{needed}, got mujoco {found}; {advice}")


def _run(goals: str, chosen: dict[str, Any]) -> Run:
    return Run({"task": TASK, "goals": goals}, make_config(SETTINGS, {"her": goals == WITH_HER}, chosen))


def _draw(results: RunResults) -> Figure:
    curves = [(variant, STYLES[goals]) for goals, variant in results.by("goals").items()]
    return plots.draw_curves(f"SAC on {TASK}", curves, results)


def _tabulate(results: RunResults) -> Grid:
    rows = [
        [
            goals,
            spread(variant.success),
            spread(variant.env_steps, ",.0f"),
            spread(variant.processor_seconds, ",.0f"),
        ]
        for goals, variant in results.by("goals").items()
    ]
    return Grid("Results", ["goals", "success", "env steps", "processor seconds"], rows)


def _judge(results: RunResults) -> list[Requirement]:
    with_her = results.of(goals=WITH_HER)
    what = f"with HER: median success within {SETTINGS['steps']:,} steps"
    return [at_least(what, 0.98, median(with_her.success))] if with_her else []
