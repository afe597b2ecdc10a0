"""An HTML page with a report and pictures. The page is one file, and loads nothing from other places."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.files.atomic import replacement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from her_wrappers.checker.report import Finding, Report
    from her_wrappers.diagnosis.facts import Facts
    from her_wrappers.diagnosis.registry import Case

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
"""Colors of the Okabe-Ito palette, which people with color blindness can tell apart."""

MAX_POINTS = 2000
"""Largest number of achieved goals, and of desired goals, in the picture of the goals."""

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 72rem;
  margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.finding { border-left: .35rem solid #888; padding: .1rem 1rem; margin: 1rem 0; background: #f6f6f6;
  overflow-wrap: anywhere; }
.error { border-color: #b00020; } .warning { border-color: #c77700; } .info { border-color: #0072b2; }
.finding h3 { margin: .5rem 0; font-size: 1rem; } dl { display: grid; grid-template-columns: 6rem 1fr;
  margin: .5rem 0; } dt { color: #555; } dd { margin: 0; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  gap: 1rem; } figure { margin: 0; } img { width: 100%; height: auto; }
figcaption { color: #555; font-size: .9rem; }
"""

Picture = tuple[str, Callable[[Any], None]]
"""Caption of a picture, and the function that draws it on the axes of matplotlib."""


def write_page(path: Path, report: Report, case: Case) -> None:
    """Write the page of a report, atomically.

    Args:
        path: The file to write or replace.
        report: The report.
        case: The facts and the history of the target, for the pictures.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: The file cannot be written.
    """
    page = render_page(report, case)
    with replacement(path) as file:
        file.write(page.encode())


def render_page(report: Report, case: Case) -> str:
    """Return the page of a report as HTML.

    Args:
        report: The report.
        case: The facts and the history of the target, for the pictures.

    Raises:
        ImportError: matplotlib is not installed.
    """
    title = f"her doctor: {escape(report.environment)}"
    findings = "".join(map(_finding, report.findings)) or "<p>No findings.</p>"
    gaps = "".join(f"<li>{escape(str(gap))}</li>" for gap in report.not_exercised)
    pictures = "".join(_figure(caption, draw) for caption, draw in _pictures(case))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p>{escape(report.summary())}</p>
<h2>Findings</h2>
{findings}
<h2>Pictures</h2>
<div class="pictures">
{pictures}
</div>
<h2>Not exercised</h2>
<ul>{gaps}</ul>
</body>
</html>
"""


def _finding(finding: Finding) -> str:
    rows = {
        "where": ", ".join(filter(None, (finding.subject, finding.place))),
        "expected": finding.expected,
        "got": finding.got,
        "cause": finding.hint,
        "fix": finding.fix,
    }
    terms = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in rows.items() if text)
    heading = escape(f"{finding.severity} {finding.code} {finding.name}")
    return f'<div class="finding {finding.severity}"><h3>{heading}</h3><dl>{terms}</dl></div>\n'


def _figure(caption: str, draw: Callable[[Any], None]) -> str:
    """Return a figure with an embedded picture."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra; without pyplot, no display is needed

    figure = Figure(figsize=(6, 3.6), dpi=110, layout="constrained")
    draw(figure.subplots())
    file = io.BytesIO()
    figure.savefig(file, format="png")
    data = base64.b64encode(file.getvalue()).decode()
    return (
        f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>\n"
    )


def _pictures(case: Case) -> Iterator[Picture]:
    if case.episodes is not None:
        facts = case.episodes
        yield "Steps of each episode, in the order of time.", lambda axes: _draw_lengths(axes, facts)
        yield "Sum of the rewards of each episode.", lambda axes: _draw_returns(axes, facts)
        if facts.success is not None:
            yield "Share of successful episodes, in up to 20 groups.", lambda axes: _draw_success(axes, facts)
        yield "Desired goals, and the last achieved goals of episodes.", lambda axes: _draw_goals(axes, facts)
        yield (
            "Distance to the goal over an episode: median and middle half of the episodes.",
            lambda axes: _draw_distances(axes, facts),
        )
        yield (
            "Share of later achieved goals that were already achieved before the step.",
            lambda axes: _draw_trivial(axes, facts),
        )
    for names, caption in (
        (("success_rate", "collected_success"), "Success rate in evaluations and while collecting."),
        (("q_mean",), "Mean value of the critic."),
        (("critic_loss", "loss", "value_loss"), "Losses of the critic."),
        (("temperature",), "Temperature of SAC."),
    ):
        found = [name for name in names if case.column(name).size]
        if found:
            yield caption, lambda axes, found=found: _draw_history(axes, case, found)  # type: ignore[misc]


def _draw_lengths(axes: Any, facts: Facts) -> None:
    axes.plot(facts.lengths, ".", markersize=3, color=COLORS[0])
    axes.set(xlabel="episode", ylabel="steps", ylim=(0, None))


def _draw_returns(axes: Any, facts: Facts) -> None:
    axes.plot(np.add.reduceat(facts.rewards, facts.offsets[:-1]), ".", markersize=3, color=COLORS[0])
    axes.set(xlabel="episode", ylabel="return")


def _draw_success(axes: Any, facts: Facts) -> None:
    groups = np.array_split(np.arange(len(facts)), min(20, len(facts)))
    rates = [facts.is_success_episode[group].mean() for group in groups]
    axes.plot([group.mean() for group in groups], rates, "o-", color=COLORS[0], label="in any step")
    last = [facts.final_success[group].mean() for group in groups]
    axes.plot([group.mean() for group in groups], last, "s--", color=COLORS[1], label="in the last step")
    axes.set(xlabel="episode", ylabel="share", ylim=(-0.05, 1.05))
    axes.legend()


def _draw_goals(axes: Any, facts: Facts) -> None:
    every = -(-len(facts) // MAX_POINTS)
    first = np.argsort(-facts.goal_width)[:2]
    first = np.sort(first) if first.size == 2 else np.zeros(2, np.int64)
    for rows, marker, color, label in (
        (facts.finals[::every], "o", COLORS[0], "achieved at the end"),
        (facts.desired[::every], "x", COLORS[1], "desired"),
    ):
        horizontal, vertical = rows[:, first].T
        axes.scatter(horizontal, vertical, s=12, marker=marker, color=color, alpha=0.5, label=label)
    kind = "projection" if facts.is_projected else "component"
    axes.set(xlabel=f"{kind} {first[0]}", ylabel=f"{kind} {first[1]}")
    axes.legend()


def _draw_distances(axes: Any, facts: Facts) -> None:
    steps = np.unique(np.linspace(0, facts.lengths.max() - 1, 50).astype(int))
    rows = [facts.distances[facts.offsets[:-1][facts.lengths > step] + step] for step in steps]
    low, middle, high = np.array([np.quantile(row, (0.25, 0.5, 0.75)) for row in rows]).T
    axes.plot(steps + 1, middle, color=COLORS[0], label="median")
    axes.fill_between(steps + 1, low, high, color=COLORS[0], alpha=0.25, label="middle half")
    if facts.radius > 0:
        axes.axhline(facts.radius, color=COLORS[2], linestyle="--", label="success radius")
    axes.set(xlabel="step", ylabel="distance", ylim=(0, None))
    axes.legend()


def _draw_trivial(axes: Any, facts: Facts) -> None:
    groups = np.array_split(facts.future_distances <= facts.tolerance, min(20, len(facts)))
    ends = np.cumsum([len(group) for group in groups])
    axes.plot(ends, [group.mean() for group in groups], "o-", color=COLORS[0])
    axes.set(xlabel="step", ylabel="share", ylim=(-0.05, 1.05))


def _draw_history(axes: Any, case: Case, names: list[str]) -> None:
    for color, name in zip(COLORS, names, strict=False):
        rows = [row for row in case.history if name in row]
        steps = [row.get("env_steps", i + 1) for i, row in enumerate(rows)]
        axes.plot(steps, [row[name] for row in rows], "o-", markersize=3, color=color, label=name)
    axes.set(xlabel="steps of the environments")
    axes.legend()
