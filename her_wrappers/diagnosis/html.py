"""An HTML page with a report and pictures; the file contains its images and styles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from her_wrappers.data.atomic import replacement
from her_wrappers.diagnosis.facts import Facts
from her_wrappers.rules import Finding, Report
from her_wrappers.support.pages import COLORS, html_image, html_page

MAX_POINTS = 2000
"""Largest number of achieved goals, and of desired goals, in the picture of the goals."""

SUCCESS = "Share of successful episodes, in up to 20 groups."

HISTORY = {
    "Success rate in evaluations and collecting.": ("success_rate", "success_once", "collected_success"),
    "Mean value of the critic.": ("q_mean",),
    "Losses of the critic.": ("critic_loss", "loss", "value_loss"),
    "Temperature of SAC.": ("temperature",),
}
"""Columns of the history that a picture shows, by the caption of the picture."""


def write_page(path: Path, report: Report, facts: Facts) -> None:
    """Write an HTML page with a report and plots of the facts; raise ImportError if matplotlib is missing."""
    body = (
        "<h2>Findings</h2>",
        *map(_finding, report.findings),
        "" if report.findings else f"<p>No findings; {report.outcome}.</p>",
        '<h2>Pictures</h2><div class="pictures">',
        *_pictures(facts),
        "</div><h2>Not exercised</h2><ul>",
        *(f"<li>{escape(str(gap))}</li>" for gap in report.not_exercised),
        "</ul>",
    )
    with replacement(path) as file:
        file.write(html_page(f"her doctor: {report.target}", report.summary(), "\n".join(body)))


def _finding(finding: Finding) -> str:
    heading = escape(f"{finding.severity} {finding.code} {finding.name}")
    fix = re.sub(r"--\w[\w.-]*\w", r"<code>\g<0></code>", escape(finding.fix))  # no line break in options
    return (
        f'<div class="finding {finding.severity}"><h3>{heading}</h3>'
        f"<p>{escape(finding.description)}</p><p>Fix: {fix}.</p></div>"
    )


def _pictures(facts: Facts) -> Iterator[str]:
    """Yield the HTML of each plot, with the image embedded."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra; without pyplot, no display is needed

    pictures: dict[str, Callable[[Any, Facts], None]] = dict(EPISODE_PICTURES) if len(facts) else {}
    if facts.missing("success"):
        pictures.pop(SUCCESS, None)
    for caption, names in HISTORY.items():
        if any(facts.column(name).size for name in names):
            pictures[caption] = partial(_draw_history, names=names)
    for caption, draw in pictures.items():
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.set_title(caption, fontsize="small")
        draw(axes, facts)
        yield html_image(figure, caption)


def _draw_lengths(axes: Any, facts: Facts) -> None:
    axes.plot(facts.lengths, ".", markersize=3, color=COLORS[0])
    axes.set(xlabel="episode", ylabel="steps", ylim=(0, None))


def _draw_returns(axes: Any, facts: Facts) -> None:
    axes.plot(np.add.reduceat(facts.rewards, facts.offsets[:-1]), ".", markersize=3, color=COLORS[0])
    axes.set(xlabel="episode", ylabel="return")


def _draw_success(axes: Any, facts: Facts) -> None:
    groups = np.array_split(np.arange(len(facts)), min(20, len(facts)))
    for values, style, color, label in (
        (facts.is_success_episode, "o-", COLORS[0], "success once"),
        (facts.final_success, "s--", COLORS[1], "success"),
    ):
        rates = [values[group].mean() for group in groups]
        axes.plot([group.mean() for group in groups], rates, style, color=color, label=label)
    axes.set(xlabel="episode", ylabel="share", ylim=(-0.05, 1.05))
    axes.legend()


def _draw_goals(axes: Any, facts: Facts) -> None:
    every = -(-len(facts) // MAX_POINTS)
    widest = np.sort(np.argsort(-facts.goal_width)[:2])
    widest = widest if widest.size == 2 else np.zeros(2, np.int64)
    for rows, marker, color, label in (
        (facts.finals[::every], "o", COLORS[0], "achieved at the end"),
        (facts.desired[::every], "x", COLORS[1], "desired"),
    ):
        horizontal, vertical = rows[:, widest].T
        axes.scatter(horizontal, vertical, s=12, marker=marker, color=color, alpha=0.5, label=label)
    kind = "projection" if facts.is_projected else "component"
    axes.set(xlabel=f"{kind} {widest[0]}", ylabel=f"{kind} {widest[1]}", aspect="equal", adjustable="datalim")
    axes.legend()


def _draw_distances(axes: Any, facts: Facts) -> None:
    steps = np.unique(np.linspace(0, facts.lengths.max() - 1, 50).astype(int))
    # An episode that ended keeps its last distance: otherwise solved episodes would leave the picture.
    rows = [facts.distances[facts.offsets[:-1] + np.minimum(step, facts.lengths - 1)] for step in steps]
    low, middle, high = np.array([np.quantile(row, (0.25, 0.5, 0.75)) for row in rows]).T
    axes.plot(steps + 1, middle, color=COLORS[0], label="median")
    axes.fill_between(steps + 1, low, high, color=COLORS[0], alpha=0.25, label="middle half")
    if facts.radius > 0:
        axes.axhline(facts.radius, color=COLORS[2], linestyle="--", label="success radius")
    axes.set(xlabel="step", ylabel="distance", ylim=(0, None))
    axes.legend()


def _draw_trivial(axes: Any, facts: Facts) -> None:
    groups = np.array_split(facts.is_trivial, min(20, len(facts)))
    axes.plot(np.cumsum([len(group) for group in groups]), [group.mean() for group in groups], "o-")
    axes.set(xlabel="step", ylabel="share", ylim=(-0.05, 1.05))


def _draw_history(axes: Any, facts: Facts, names: tuple[str, ...]) -> None:
    for color, name in zip(COLORS, names, strict=False):
        rows = [row for row in facts.history if name in row]
        steps = [row.get("env_steps", i + 1) for i, row in enumerate(rows)]
        if rows:
            axes.plot(steps, [row[name] for row in rows], "o-", markersize=3, color=color, label=name)
    axes.set(xlabel="steps of the environments")
    axes.legend()


EPISODE_PICTURES = {
    "Steps of each episode, in the order of time.": _draw_lengths,
    "Sum of the rewards of each episode.": _draw_returns,
    SUCCESS: _draw_success,
    "Desired goals, and the last achieved goals of episodes.": _draw_goals,
    "Distance to the goal over an episode: median and middle half of the episodes.": _draw_distances,
    "Share of later achieved goals that were already achieved before the step.": _draw_trivial,
}
"""Functions that draw a picture of the episodes, by the caption of the picture."""
