"""An HTML page with a report and plots; the file contains its images and styles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from her_wrappers.data.atomic import replacement
from her_wrappers.diagnosis.facts import Facts
from her_wrappers.rules import Report
from her_wrappers.support.pages import COLORS, html_image, html_page

HISTORY = {
    "Success rate in evaluations and collecting": ("success_rate", "success_once", "collected_success"),
    "Mean value of the critic": ("q_mean",),
    "Losses of the critic": ("critic_loss", "loss", "value_loss"),
    "Temperature of SAC": ("temperature",),
}
"""Columns of the history in a plot, by the title of the plot."""


def write_page(path: Path, report: Report, facts: Facts) -> None:
    """Write an HTML page with a report and plots of the facts; raise ImportError if matplotlib is missing."""
    summary, _, findings = report.text().partition("\n")
    body = f"<pre>{escape(findings)}</pre>\n{html_image(*draw(facts))}"
    with replacement(path) as file:
        file.write(html_page(f"her doctor: {report.target}", summary, body))


def draw(facts: Facts) -> tuple[Any, str]:
    """Return a Matplotlib figure with the plots for which the facts have data, and their titles."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra; without pyplot, no display is needed

    plots: dict[str, Callable[[Any, Facts], None]] = {}
    if len(facts) and not facts.missing("success"):
        plots["Share of successful episodes, in up to 20 groups"] = _draw_success
    if len(facts):
        plots["Desired goals, and the last achieved goals of episodes"] = _draw_goals
        plots["Distance to the goal: median and middle half of the episodes"] = _draw_distances
    for title, names in HISTORY.items():
        if any(facts.column(name).size for name in names):
            plots[title] = partial(_draw_history, names=names)
    rows = max(1, -(-len(plots) // 2))
    figure = Figure(figsize=(10, 3.2 * rows), layout="constrained")
    for place, (title, draw_plot) in enumerate(plots.items(), 1):
        axes = figure.add_subplot(rows, 2, place)
        axes.set_title(title, fontsize="small")
        draw_plot(axes, facts)
        axes.legend(fontsize="small")
    return figure, "; ".join(plots)


def _draw_success(axes: Any, facts: Facts) -> None:
    groups = np.array_split(np.arange(len(facts)), min(20, len(facts)))
    for values, style, color, label in (
        (facts.is_success_episode, "o-", COLORS[0], "success once"),
        (facts.final_success, "s--", COLORS[1], "success"),
    ):
        rates = [values[group].mean() for group in groups]
        axes.plot([group.mean() for group in groups], rates, style, color=color, label=label)
    axes.set(xlabel="episode", ylabel="share", ylim=(-0.05, 1.05))


def _draw_goals(axes: Any, facts: Facts) -> None:
    every = -(-len(facts) // 2000)  # more points would hide each other
    widest = np.sort(np.argsort(-facts.goal_width)[:2])
    widest = widest if widest.size == 2 else np.zeros(2, np.int64)
    for rows, marker, color, label in (
        (facts.finals[::every], "o", COLORS[0], "achieved at the end"),
        (facts.desired[::every], "x", COLORS[1], "desired"),
    ):
        axes.scatter(*rows[:, widest].T, s=12, marker=marker, color=color, alpha=0.5, label=label)
    kind = "projection" if facts.is_projected else "component"
    axes.set(xlabel=f"{kind} {widest[0]}", ylabel=f"{kind} {widest[1]}", aspect="equal", adjustable="datalim")


def _draw_distances(axes: Any, facts: Facts) -> None:
    steps = np.unique(np.linspace(0, facts.lengths.max() - 1, 50).astype(int))
    # An episode that ended keeps its last distance: otherwise solved episodes would leave the plot.
    rows = [facts.distances[facts.offsets[:-1] + np.minimum(step, facts.lengths - 1)] for step in steps]
    low, middle, high = np.array([np.quantile(row, (0.25, 0.5, 0.75)) for row in rows]).T
    axes.plot(steps + 1, middle, color=COLORS[0], label="median")
    axes.fill_between(steps + 1, low, high, color=COLORS[0], alpha=0.25, label="middle half")
    if facts.radius > 0:
        axes.axhline(facts.radius, color=COLORS[2], linestyle="--", label="success radius")
    axes.set(xlabel="step", ylabel="distance", ylim=(0, None))


def _draw_history(axes: Any, facts: Facts, names: tuple[str, ...]) -> None:
    for color, name in zip(COLORS, names, strict=False):
        rows = [row for row in facts.history if name in row]
        steps = [row.get("env_steps", i + 1) for i, row in enumerate(rows)]
        if rows:
            axes.plot(steps, [row[name] for row in rows], "o-", markersize=3, color=color, label=name)
    axes.set(xlabel="steps of the environments")
