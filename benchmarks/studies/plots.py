"""Figures of the studies: lines are medians over seeds, shaded areas are ranges.

The colors are those of Okabe and Ito, which color-blind people can distinguish; lines also differ in style
or marker. The text is readable if a figure is shown with a width of 700 pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from benchmarks.studies.results_file import Floats, RunResults

BLUE, VERMILLION, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
ORANGE, SKY, GRAY = "#e69f00", "#56b4e9", "#555555"

STEPS_LABEL = "thousand environment steps"

STYLE: Any = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "lines.linewidth": 2.0,
    "lines.markersize": 6,
    "legend.frameon": False,
    "figure.titlesize": 13,
    "figure.titleweight": "bold",
    "figure.constrained_layout.use": True,
}


@dataclass(frozen=True)
class LineStyle:
    """Style of the line of a variant.

    Attributes:
        label: Text in the legend.
        color: Color of the line and of the shaded range.
        line: Line style of Matplotlib.
        marker: Marker of Matplotlib; "" for lines with many points.
    """

    label: str
    color: str
    line: str = "-"
    marker: str = ""


def make_figure(
    title: str, rows: int = 1, columns: int = 1, *, height: float = 4.2, **options: Any
) -> tuple[Figure, Any]:
    """Return an empty figure, and its axes, (rows, columns).

    Args:
        title: Title of the figure.
        rows: Rows of panels.
        columns: Columns of panels.
        height: Height [inches].
        **options: Arguments of `Figure.subplots`.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, height), layout="constrained")
        figure.suptitle(title)
        return figure, figure.subplots(rows, columns, squeeze=False, **options)


def draw_spread(axes: Axes, x: Sequence[float], values: Iterable[Floats], style: LineStyle) -> None:
    """Draw the median over the seeds at each x, and shade the range of the seeds.

    Args:
        axes: Axes to draw on.
        x: P positions on the horizontal axis.
        values: (S,) values of the S seeds, for each position.
        style: Style of the line.
    """
    low, middle, high = np.transpose([(each.min(), np.median(each), each.max()) for each in values])
    axes.fill_between(x, low, high, color=style.color, alpha=0.15, linewidth=0)
    axes.plot(
        x,
        middle,
        style.line,
        color=style.color,
        marker=style.marker,
        linewidth=2,
        label=style.label,
        clip_on=False,
    )


def draw_level(axes: Axes, values: Floats, style: LineStyle) -> None:
    """Draw the median of the values as a horizontal line, and shade their range."""
    axes.axhspan(values.min(), values.max(), color=style.color, alpha=0.15, linewidth=0)
    axes.axhline(float(np.median(values)), linestyle=style.line, color=style.color, label=style.label)


def draw_curve(axes: Axes, results: RunResults, style: LineStyle) -> None:
    """Draw success against thousands of environment steps, with a dot at the end of the longest training."""
    steps, success = results.curve()
    thousands = [step / 1000 for step in steps]
    draw_spread(axes, thousands, success, style)
    axes.plot(thousands[-1], np.median(success[-1]), "o", color=style.color, clip_on=False)


def show_rates(axes: Axes) -> None:
    """Set limits and ticks of the vertical axis for success rates."""
    axes.set_ylim(-0.03, 1.03)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])


def show_steps(axes: Axes) -> None:
    """Set limits and ticks of the horizontal axis for thousands of steps, after all curves are drawn.

    Panels that share this axis have one range, which later curves do not extend.
    """
    axes.set_xlim(0, None)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def add_legend(figure: Figure, all_axes: Iterable[Axes], results: RunResults) -> None:
    """Add one legend below all panels, with an entry for the shaded range if there are several seeds."""
    named: dict[str, Any] = {}
    for axes in all_axes:
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    seeds = len({each.run.config.seed for each in results.all})
    if seeds > 1:
        named[f"range of {seeds} seeds"] = Patch(color=GRAY, alpha=0.2, linewidth=0)
    figure.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncols=len(named) if len(named) <= 3 else (len(named) + 1) // 2,
        frameon=False,
        handlelength=2.6,
    )


def save(figure: Figure, path: Path) -> None:
    """Write a figure to a file."""
    with mpl.rc_context(STYLE):
        figure.savefig(path, dpi=150)
