"""Figures of the studies, with the colors, lines and learning curves of `her_agents.results.comparison`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from her_agents.results.comparison import LINES, MARKERS, STYLE
from her_wrappers.support.pages import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from benchmarks.studies.results_file import Floats


SPREAD = "line: median; band: range of the seeds"


def make_figure(
    title: str, rows: int = 1, columns: int = 1, *, height: float = 4.2, **options: Any
) -> tuple[Figure, Any]:
    """Return an empty figure of ``height`` inches, and its axes (rows, columns) from subplots(**options)."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, height), layout="constrained")
        figure.suptitle(title, weight="bold")
        return figure, figure.subplots(rows, columns, squeeze=False, **options)


def draw_spread(axes: Axes, x: Sequence[float], values: Iterable[Floats], label: str, number: int) -> None:
    """Draw the median over S seeds at each x, and shade the range over the seeds.

    Each item of ``values`` has the (S,) values at one x; ``number`` selects color, line style and marker.
    """
    low, middle, high = np.transpose([(each.min(), np.median(each), each.max()) for each in values])
    color, line = COLORS[number], LINES[number % len(LINES)]
    axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    axes.plot(x, middle, line, color=color, marker=MARKERS[number], linewidth=2, label=label, clip_on=False)


def show_rates(axes: Axes) -> None:
    """Set limits and ticks of the vertical axis for success rates."""
    axes.set_ylim(-0.03, 1.03)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])


def finish_curves(panels: Any) -> None:
    """Set limits, ticks and labels of all panels (rows, columns), after the learning curves are drawn."""
    for axes in panels.flat:
        show_rates(axes)
        axes.set_xlim(0, None)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    for axes in panels[-1]:
        axes.set_xlabel("environment steps")
    for axes in panels[:, 0]:
        axes.set_ylabel("success rate")


def add_legend(figure: Figure, all_axes: Iterable[Axes], note: str = "") -> None:
    """Add one legend below all panels, with a note about the lines as its title."""
    named: dict[str, Any] = {}
    for axes in all_axes:
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    figure.legend(
        named.values(),
        named,
        title=note,
        loc="outside lower center",
        ncols=len(named) if len(named) <= 3 else (len(named) + 1) // 2,
        frameon=False,
        handlelength=2.6,
    )


def save(figure: Figure, path: Path) -> None:
    """Write a figure to an SVG file; equal figures give equal files."""
    with mpl.rc_context(STYLE):
        figure.savefig(path, metadata={"Date": None})
