"""DDPG, TD3 and SAC on three tasks of a point, with and without HER, with sparse and with dense rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from examples.reproduce.outcomes import Outcomes, median, spread
from examples.reproduce.plots import (
    BLUE,
    ORANGE,
    SKY,
    VERMILLION,
    Look,
    add_legend,
    draw_curve,
    make_figure,
    show_rates,
)
from examples.reproduce.runs import WITH_HER, WITHOUT_HER, Run
from examples.reproduce.study import Study
from examples.results import Claim, Grid, at_least, at_most
from examples.training.config import make_config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASKS: dict[str, dict[str, Any]] = {
    "PointReach": {"steps": 8_000, "steps_per_epoch": 1_600},
    "PointMaze": {"steps": 24_000, "steps_per_epoch": 2_400},
    "PointPush": {"steps": 40_000, "steps_per_epoch": 4_000},
}
"""Environments, and what is configured for them."""

AGENTS: dict[str, dict[str, Any]] = {"ddpg": {}, "td3": {}, "sac": {}}
"""Algorithms, and what is configured for them."""

REWARDS: dict[str, dict[str, Any]] = {
    "sparse": {},
    "dense": {"env_kwargs": {"reward_type": "dense"}, "clip_targets": False},
}
"""Rewards, and what is configured for them: dense ones may be below -1, which clipped targets are not for."""

SETTINGS: dict[str, Any] = {"evaluation_episodes": 25}
"""For all runs."""

QUICK: dict[str, dict[str, Any]] = {"PointReach": {"steps": 4_800}, "PointMaze": {"steps": 9_600}}
"""Environments of a quick look, and what is configured otherwise there."""

LOOKS = {
    ("sparse", WITH_HER): Look("sparse, with HER", BLUE, "-"),
    ("dense", WITH_HER): Look("dense, with HER", SKY, "--"),
    ("sparse", WITHOUT_HER): Look("sparse, without HER", VERMILLION, "-"),
    ("dense", WITHOUT_HER): Look("dense, without HER", ORANGE, "--"),
}

ABOUT = """A point goes to a place in a square (PointReach), through a maze in the form of a U (PointMaze),
or pushes a puck to a place (PointPush). Sparse rewards are 0 at the goal and -1 elsewhere, dense ones minus
the distance to it, which in the maze is blind to walls. Section 4.4 of Andrychowicz et al. 2017 ([arXiv
1707.01495](https://arxiv.org/abs/1707.01495)) has the same question: there dense rewards do worse."""


def make_study(seeds: int, *, quick: bool) -> Study:
    """Return the study, of two tasks and one agent if it is to be quick."""
    tasks = QUICK if quick else {task: {} for task in TASKS}
    runs = [
        _run(task, algo, reward, goals, {**chosen, "seed": seed})
        for task, chosen in tasks.items()
        for algo in (["ddpg"] if quick else AGENTS)
        for reward, goals in LOOKS
        for seed in range(seeds)
    ]
    title = "Three tasks of a point: agents, rewards, and HER"
    return Study("reach", title, ABOUT, runs, _draw, _tabulate, _judge, quick)


def _run(task: str, algo: str, reward: str, goals: str, chosen: dict[str, Any]) -> Run:
    labels = {"task": task, "agent": algo.upper(), "reward": reward, "goals": goals}
    named = {"env": f"her_envs/{task}-v0", "algo": algo, "her": goals == WITH_HER}
    return Run(labels, make_config(SETTINGS, TASKS[task], AGENTS[algo], REWARDS[reward], named, chosen))


def _draw(outcomes: Outcomes) -> Figure:
    tasks, agents = outcomes.by("task"), outcomes.by("agent")
    figure, panels = make_figure(
        "Learning to reach, to find the way, to push",
        len(tasks),
        len(agents),
        height=1.4 + 2.2 * len(tasks),
        sharex="row",
        sharey=True,
    )
    for row, (task, on_task) in zip(panels, tasks.items(), strict=True):
        for axes, agent in zip(row, agents, strict=True):
            for (reward, goals), look in LOOKS.items():
                arm = on_task.of(agent=agent, reward=reward, goals=goals)
                if arm:
                    draw_curve(axes, arm, look)
            axes.set_title(f"{task}, {agent}")
            axes.set_xlim(0, None)
            show_rates(axes)
        row[0].set_ylabel("success rate")
    for axes in panels[-1]:
        axes.set_xlabel("thousand environment steps")
    add_legend(figure, panels.flat, outcomes, 3)
    return figure


def _tabulate(outcomes: Outcomes) -> Grid:
    header = ["task", "agent", *(look.label for look in LOOKS.values()), "env steps", "processor seconds"]
    rows = []
    for task, on_task in outcomes.by("task").items():
        for agent, both in on_task.by("agent").items():
            arms = [both.of(reward=reward, goals=goals) for reward, goals in LOOKS]
            ours = arms[0]
            cost = [spread(ours.env_steps, ",.0f"), spread(ours.processor_seconds, ".0f")]
            rows.append([task, agent, *(spread(arm.success) for arm in arms), *cost])
    return Grid("Success of the trained policies; steps and seconds of the first of them", header, rows)


def _judge(outcomes: Outcomes) -> list[Claim]:
    sparse = outcomes.of(reward="sparse", goals=WITH_HER)
    claims = []
    for agent, arm in sparse.of(task="PointReach").by("agent").items():
        seconds = float(arm.processor_seconds.max())
        claims.append(at_least(f"PointReach, {agent}: median success", 0.98, median(arm.success)))
        claims.append(at_most(f"PointReach, {agent}: processor seconds of the slowest seed", 60, seconds))
    for task in ("PointMaze", "PointPush"):
        claims += _judge_harder(
            task, sparse.of(task=task), outcomes.of(task=task, goals=WITHOUT_HER, reward="sparse")
        )
    return claims


def _judge_harder(task: str, with_her: Outcomes, without: Outcomes) -> list[Claim]:
    """Judge a task that one agent at least shall learn, and none as well without HER."""
    best, plain = (
        max((float(median(arm.success) or 0) for arm in arms.by("agent").values()), default=None)
        for arms in (with_her, without)
    )
    lead = None if best is None or plain is None else best - plain
    return [
        at_least(f"{task}: median success of the best agent", 0.9, best),
        at_least(f"{task}: its lead over the best agent without HER", 0.3, lead),
    ]
