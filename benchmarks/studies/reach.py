"""DDPG, TD3 and SAC on the three point tasks, with and without HER, with sparse and dense rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.result_page import Grid, listing, spread
from benchmarks.studies import plots
from benchmarks.studies.results_file import RunResults
from benchmarks.studies.runs import WITH_HER, WITHOUT_HER, Run
from benchmarks.studies.study import Study
from her_agents.results.comparison import draw_group
from her_agents.training.config import make_config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASKS: dict[str, dict[str, Any]] = {
    "PointReach": {"steps": 8_000, "steps_per_epoch": 1_600, "evaluation_episodes": 50},
    "PointMaze": {"steps": 4_800, "steps_per_epoch": 1_200, "evaluation_episodes": 50},
    "PointPush": {
        "steps": 352_000,
        "steps_per_epoch": 32_000,
        "evaluation_episodes": 25,
        "num_envs": 64,
        "learning_starts": 32_000,
        "buffer_size": 100_000,
        "updates_per_step": 0.02,
        "batch_size": 512,
        "prioritized": True,
    },
}
"""Options for each environment, by its name."""

PUSHING = {"action_l2": 0.1, "epsilon": 0, "noise": 1.0}
"""Options of the agent for exploration that moves the puck more than twice as often as the defaults."""

AGENTS: dict[str, dict[str, dict[str, Any]]] = {
    "ddpg": {"PointPush": PUSHING},
    "td3": {"PointPush": PUSHING | {"policy_delay": 1}},
    "sac": {},
}
"""Arguments of each algorithm for single tasks; other tasks use the defaults of the algorithm."""

REWARDS: dict[str, dict[str, Any]] = {
    "sparse": {},
    "dense": {"env_kwargs": {"reward_type": "dense"}, "clip_targets": False},
}
"""Options for each type of reward. Dense rewards can be below -1, so targets are not clipped."""

QUICK = ("PointReach", "PointMaze")
"""Environments with ``--quick``, which measures only the first algorithm of `AGENTS`."""

VARIANTS = [(reward, goals) for goals in (WITH_HER, WITHOUT_HER) for reward in REWARDS]

ABOUT = """A point moves to a goal in a square (PointReach) or in a U-shaped maze (PointMaze), or pushes a
puck to a goal (PointPush). Sparse rewards are 0 at the goal and -1 elsewhere. Dense rewards are minus the
straight-line distance to the goal, which ignores walls. Section 4.4 of Andrychowicz et al. 2017
([arXiv 1707.01495](https://arxiv.org/abs/1707.01495)) compares sparse and dense rewards on a robot arm, where
agents with dense rewards failed. The settings were chosen for sparse rewards with HER; all variants use them,
except that targets of dense rewards are not clipped.
The runs are short: with more steps, PointMaze is also solved with sparse rewards and without HER."""


def make_study(seeds: int, *, quick: bool) -> Study:
    """Return the study of the point tasks: three agents, with and without HER, sparse and dense rewards."""
    runs = [
        _run(task, algo, reward, goals, seed)
        for task in (QUICK if quick else TASKS)
        for algo in list(AGENTS)[: 1 if quick else None]
        for reward, goals in VARIANTS
        for seed in range(seeds)
    ]
    question = "Does HER help with sparse and with dense rewards?"
    file = "benchmarks/studies/reach.py"
    return Study("reach", question, ABOUT, file, runs, _answer, _draw, _tabulate, quick)


def settings(task: str, algo: str) -> dict[str, Any]:
    """Return the options for an algorithm on a task."""
    named = {"env": f"her_envs/{task}-v0", "algo": algo, "agent": AGENTS[algo].get(task, {})}
    return named | TASKS[task]


def _run(task: str, algo: str, reward: str, goals: str, seed: int) -> Run:
    labels = {"task": task, "agent": algo.upper(), "reward": reward, "goals": goals}
    chosen = {"her": goals == WITH_HER, "seed": seed}
    return Run(labels, make_config(settings(task, algo), REWARDS[reward], chosen))


def _answer(results: RunResults) -> str:
    best = {
        variant: listing([
            f"{max(np.median(each.success) for each in on_task.by('agent').values()):.2f}"
            for on_task in results.of(reward=variant[0], goals=variant[1]).by("task").values()
        ])
        for variant in VARIANTS
    }
    return (
        f"Success rates on {listing(list(results.by('task')))} are {best['sparse', WITH_HER]} with sparse "
        f"rewards and HER, {best['sparse', WITHOUT_HER]} with sparse rewards without HER, and "
        f"{best['dense', WITHOUT_HER]} with dense rewards without HER. "
        "Each is the rate of the best algorithm."
    )


def _draw(results: RunResults) -> Figure:
    tasks, agents = results.by("task"), results.by("agent")
    figure, panels = plots.make_figure(
        "PointReach, PointMaze and PointPush",
        len(tasks),
        len(agents),
        height=1.4 + 2.2 * len(tasks),
        sharex="row",
        sharey=True,
    )
    for row, (task, on_task) in zip(panels, tasks.items(), strict=True):
        for axes, agent in zip(row, agents, strict=True):
            for number, (reward, goals) in enumerate(VARIANTS):
                variant = on_task.of(agent=agent, reward=reward, goals=goals)
                if variant:
                    draw_group(axes, variant.logs(), f"{reward}, {goals}", number)
            axes.set_title(f"{task}, {agent}")
    plots.finish_curves(panels)
    plots.add_legend(figure, panels.flat)
    return figure


def _tabulate(results: RunResults) -> Grid:
    names = [f"{reward}, {goals}" for reward, goals in VARIANTS]
    header = ["task", "agent", *names, "environment steps", "processor seconds"]
    rows = []
    for task, on_task in results.by("task").items():
        for agent, both in on_task.by("agent").items():
            variants = [both.of(reward=reward, goals=goals) for reward, goals in VARIANTS]
            first = variants[0]
            cost = [spread(first.env_steps, ",.0f"), spread(first.processor_seconds, ".0f")]
            rows.append([task, agent, *(spread(variant.success) for variant in variants), *cost])
    return Grid("Success rates of the final policies; steps and seconds of sparse, with HER", header, rows)
