"""Comparison of groups of runs: success rates, time until a success rate, and learning curves.

The statistics follow Agarwal et al. 2021 (arXiv 2108.13264) and Kaplan and Meier 1958; `docs/compare.md`
explains the choices.
"""

from __future__ import annotations

import io
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import stats

from her_agents.training.run_logs import RunLog, read_runs
from her_wrappers.data.atomic import replacement
from her_wrappers.support.arguments import require_count, require_number, require_suffix
from her_wrappers.support.pages import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIN_RUNS = 5
"""Smallest number of runs for which an interval is computed; for fewer runs, the range of values is shown."""

LEVEL = 0.95  # confidence level of all intervals

RESAMPLES, CURVE_RESAMPLES = 10_000, 2_000
"""Numbers of bootstrap resamples: for the interval of one value, and for the band of a learning curve."""

MAX_POINTS = 200  # largest number of points of a learning curve

SUFFIXES = (".pdf", ".png", ".svg", ".md")
"""Suffixes of the files that `Comparison.write` can write: figures, then tables."""

# Line styles and markers distinguish the groups in black and white.
LINES, MARKERS = ("-", "--", "-.", ":"), "osD^vXP"

STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "pdf.fonttype": 42,  # TrueType: publishers reject the default, Type 3
    "svg.hashsalt": "her",  # equal figures give equal files
}


class Estimate(NamedTuple):
    """A value and its 95 % interval; with fewer than 5 runs, the range over the runs, or NaN (`estimate`)."""

    value: float
    low: float
    high: float


UNKNOWN = Estimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class GroupResult:
    """Results of one group of runs in one task.

    Attributes:
        task: Name of the environment; "" if it is unknown, "all" for the results over several tasks.
        group: Name of the group.
        runs: Number of runs.
        at: Number of steps after which success rates are compared; NaN for several tasks.
        success: Interquartile mean of the success rates of the runs after ``at`` steps.
        reached: Number of runs that reached the success rate `Comparison.threshold`; None for several tasks.
        steps: Kaplan-Meier median of the steps until a run reaches the threshold; infinite if the estimated
            share of runs that reach it stays below one half.
        minutes: Kaplan-Meier median of the wall-clock time [minutes] until a run reaches the threshold; NaN
            if unknown.
    """

    task: str
    group: str
    runs: int
    at: float
    success: Estimate
    reached: int | None = None
    steps: Estimate = UNKNOWN
    minutes: Estimate = UNKNOWN


@dataclass(frozen=True)
class Comparison:
    """Results of groups of runs.

    Attributes:
        runs: Runs by task and group.
        rows: Results of each group in each task; if there are several tasks, also the results of each group
            over all tasks.
        improvement: Dict whose keys are pairs of group names. Each value is the probability that a run of the
            first group has a higher success rate than a run of the second group, averaged over the tasks that
            both groups have. Equal rates count one half.
        threshold: Success rate; `rows` contain the time until a run reaches this rate.
        seed: Seed of the bootstrap.
    """

    runs: dict[str, dict[str, list[RunLog]]]
    rows: list[GroupResult]
    improvement: dict[tuple[str, str], Estimate]
    threshold: float
    seed: int

    def tables(self) -> list[tuple[list[str], list[list[str]]]]:
        """Return (header, rows) of two tables: results of each group of runs, and of each pair of groups."""
        to = f"{self.threshold:g}"
        head = ["task", "group", "runs", "at step", "success", f"reached {to}", f"steps to {to}"]
        groups = [
            [
                each.task,
                each.group,
                str(each.runs),
                _cell(each.at, ",.0f"),
                _estimate(each.success, ".2f"),
                "" if each.reached is None else f"{each.reached} of {each.runs}",
                _estimate(each.steps, ",.0f"),
                _estimate(each.minutes, ".1f"),
            ]
            for each in self.rows
        ]
        pairs = [[*names, _estimate(each, ".2f")] for names, each in self.improvement.items()]
        first, second = [*head, f"minutes to {to}"], ["group X", "group Y", "P(X > Y)"]
        if len(self.runs) == 1:  # the task is the same in all rows
            first, groups = first[1:], [row[1:] for row in groups]
        return [(first, groups), (second, pairs)]

    def text(self) -> str:
        """Return the results as Markdown tables, and a paragraph that explains how they were computed."""
        is_small = any(row.runs < MIN_RUNS for row in self.rows)
        more = f"; range if a group has fewer than {MIN_RUNS} runs" if is_small else ""
        caption = (
            "Success: interquartile mean of the last evaluations up to the step. Steps and minutes: "
            "Kaplan-Meier median of the first evaluation with that success rate. P(X > Y): probability that "
            "a run of X is better than a run of Y; ties count one half. "
            f"In brackets: {LEVEL:.0%} interval{more}.\n"
        )
        return "\n\n".join([*(markdown_table(*each) for each in self.tables() if each[1]), caption])

    def draw(self) -> Figure:
        """Return a figure with one panel for each task. A panel shows the learning curve of each group."""
        import matplotlib as mpl  # noqa: PLC0415 - slow
        from matplotlib.figure import Figure  # noqa: PLC0415 - slow
        from matplotlib.ticker import EngFormatter  # noqa: PLC0415 - slow

        columns = min(3, len(self.runs))
        rows = -(-len(self.runs) // columns)
        names = list(dict.fromkeys(row.group for row in self.rows))
        with mpl.rc_context(STYLE):
            size = (max(6, 3.6 * columns), 0.8 + 3.2 * rows)
            figure = Figure(figsize=size, layout="constrained")
            panels = figure.subplots(rows, columns, squeeze=False, sharey=True).flat
            for axes, (task, groups) in zip(panels, self.runs.items(), strict=False):
                for name, logs in groups.items():
                    draw_group(axes, logs, name, names.index(name), self.seed)
                axes.set(title=task, xlabel="environment steps", ylim=(-0.03, 1.03), xlim=(0, None))
                axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # such as 250k
            for axes in list(figure.axes)[len(self.runs) :]:
                axes.remove()
            for axes in figure.axes[::columns]:
                axes.set_ylabel("success rate")
            handles = {
                label: handle
                for axes in figure.axes
                for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
            }
            band = f"band: {LEVEL:.0%} interval, or range of fewer than {MIN_RUNS} runs"
            letters = max(map(len, handles)) + 9  # of an entry: its label, line and margin
            figure.legend(
                handles.values(),
                handles,
                title=f"line: interquartile mean; {band}",
                loc="outside lower center",
                ncols=max(1, min(3, len(names), int(12 * size[0] / letters))),  # 12 letters per inch
                frameon=False,
                handlelength=3,
            )
        return figure

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the figure (.pdf, .png, .svg) or the tables (.md); the suffix of the path decides.

        Raises:
            OSError: The file cannot be written.
            ValueError: The path has another suffix.
        """
        suffix, data = require_suffix("path", path, SUFFIXES), io.BytesIO()
        if suffix == ".md":
            data.write(self.text().encode())
        else:
            import matplotlib as mpl  # noqa: PLC0415 - slow

            # Without the date, so that equal figures give equal files
            dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
            with mpl.rc_context(STYLE):
                self.draw().savefig(data, format=suffix[1:], dpi=200, metadata=dated)
        with replacement(Path(path)) as file:
            file.write(data.getbuffer())


def compare(
    *runs: str | os.PathLike[str] | RunLog,
    by: Sequence[str] = (),
    threshold: float = 0.9,
    at: float | None = None,
    seed: int = 0,
) -> Comparison:
    """Compare groups of runs.

    Args:
        *runs: Paths that `read_runs` accepts, such as the folder of a run or a folder of runs; or `RunLog`
            objects.
        by: Names of options, such as ``agent.temperature``: runs with equal values of these options form a
            group. By default, the runs of one folder form a group.
        threshold: Success rate in (0, 1]. The results contain the time until a run reaches this rate.
        at: Number of steps after which success rates are compared. By default, for each task, the end of the
            shortest unsolved run or, if all runs are solved, the end of the longest run. A run is solved if
            all episodes of its last two evaluations were successes.
        seed: Seed of the bootstrap.

    Returns:
        The results. Groups and tasks are in the order of the runs.

    Raises:
        CorruptFileError: A log is damaged.
        ImportError: The logs are TensorBoard logs, and tensorboard is not installed.
        OSError: A file cannot be read.
        ValueError: No run is given, a log cannot be used, an option is unknown, or a number is out of range.

    Example:
        ``compare("runs/with_her", "runs/without_her").write("figure.pdf")``
    """
    require_number("threshold", threshold, "(0, 1]")
    require_count("seed", seed, at_least=0)
    logs = [log for each in runs for log in ([each] if isinstance(each, RunLog) else read_runs(each))]
    if not logs:
        raise ValueError("compare() needs at least one run, got none; pass the folder of a run")
    logs = [replace(log, group=_group_by(log, by)) for log in logs] if by else _short_groups(logs)
    by_task: dict[str, dict[str, list[RunLog]]] = {}
    for log in logs:
        origin, colon, name = str(log.options.get("env", "")).rpartition(":")
        task = f"{Path(origin).name}:{name}" if origin.endswith(".py") else origin + colon + name
        by_task.setdefault(task, {}).setdefault(log.group, []).append(log)
    rng, rows = np.random.default_rng(seed), list[GroupResult]()
    scores: dict[str, dict[str, np.ndarray]] = {}  # by group and task
    for task, groups in by_task.items():
        step = _common_steps([log for group in groups.values() for log in group]) if at is None else at
        for name, group in groups.items():
            rates = np.array([log.success_at(step) for log in group])
            scores.setdefault(name, {})[task] = rates
            reached, steps = time_until(group, threshold)
            minutes = time_until(group, threshold, minutes=True)[1]
            success = estimate(interquartile_mean, [rates], rng)
            rows.append(GroupResult(task, name, len(group), step, success, reached, steps, minutes))
    if len(by_task) > 1:
        for name, in_tasks in scores.items():
            success = estimate(interquartile_mean, list(in_tasks.values()), rng)
            rows.append(GroupResult("all", name, sum(map(len, in_tasks.values())), math.nan, success))
    improvement = {}
    for x, y in combinations(scores, 2):
        tasks = [task for task in scores[x] if task in scores[y]]
        if tasks:
            pairs = [scores[name][task] for task in tasks for name in (x, y)]
            improvement[x, y] = estimate(improvement_probability, pairs, rng)
    return Comparison(by_task, rows, improvement, threshold, seed)


def _group_by(log: RunLog, by: Sequence[str]) -> str:
    """Return the name of a run's group: the values of the options ``by`` in this run."""
    for name in by:
        if name not in log.options:
            known = ", ".join(map(repr, sorted(log.options))) or "none"
            raise ValueError(
                f"by= must contain names of options, got {name!r}; the options of {log.name} are: {known}"
            )
    return ", ".join(f"{name.rpartition('.')[2]} {log.options[name]}" for name in by)


def _short_groups(logs: Sequence[RunLog]) -> list[RunLog]:
    """Shorten each group's name to the last part of its path, unless two groups would get the same name."""
    short = {log.group: Path(log.group).name or log.group for log in logs}
    if len(set(short.values())) < len(short):
        return list(logs)
    return [replace(log, group=short[log.group]) for log in logs]


def _common_steps(logs: Sequence[RunLog]) -> float:
    """Return the largest number of steps at which the success rates of all runs are known."""
    unsolved = [log.steps[-1] for log in logs if not log.is_solved]
    return float(min(unsolved) if unsolved else max(log.steps[-1] for log in logs))


def interquartile_mean(*strata: np.ndarray, axis: int = -1) -> np.ndarray:
    """Join the arrays along ``axis``; return the mean of the middle half of the values, as rliable does."""
    return stats.trim_mean(np.concatenate(strata, axis=axis), 0.25, axis=axis)  # type: ignore[no-any-return]


def improvement_probability(*strata: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the probability that a run of group X is better than a run of group Y, averaged over tasks.

    Equal values count one half. ``strata`` are the values of X and of Y in the first task, of X and of Y in
    the second task, and so on; their axis ``axis`` is that of the runs.
    """
    tasks = []
    for x, y in zip(strata[::2], strata[1::2], strict=True):
        difference = np.moveaxis(x, axis, -1)[..., :, None] - np.moveaxis(y, axis, -1)[..., None, :]
        tasks.append(((np.sign(difference) + 1) / 2).mean(axis=(-2, -1)))
    return np.mean(tasks, axis=0)  # type: ignore[no-any-return]


Statistic = Callable[..., np.ndarray]


def estimate(statistic: Statistic, strata: Sequence[np.ndarray], rng: np.random.Generator) -> Estimate:
    """Return ``statistic(*strata)`` with its 95 % percentile interval from a stratified bootstrap.

    Each array of ``strata`` has one value per run. The bootstrap needs at least `MIN_RUNS` runs per array.
    With fewer runs, the interval is the range of the values if there is one array, and NaN otherwise.
    """
    value = float(statistic(*strata))
    if min(map(len, strata)) >= MIN_RUNS:
        return Estimate(value, *_bootstrap(statistic, strata, rng, RESAMPLES))
    if len(strata) == 1:
        return Estimate(value, strata[0].min(), strata[0].max())
    return Estimate(value, math.nan, math.nan)


def _bootstrap(
    statistic: Statistic, strata: Sequence[np.ndarray], rng: np.random.Generator, resamples: int
) -> tuple[Any, Any]:
    """Return both ends of the bootstrap interval, each of shape (...) if strata have shape (runs, ...)."""
    result = stats.bootstrap(
        strata,
        statistic,
        axis=0,
        vectorized=True,
        n_resamples=resamples,
        batch=500,  # limits the memory
        confidence_level=LEVEL,
        method="percentile",
        random_state=rng,
    )
    return result.confidence_interval.low, result.confidence_interval.high


def time_until(logs: Sequence[RunLog], threshold: float, *, minutes: bool = False) -> tuple[int, Estimate]:
    """Return how many runs reached a success rate, and the Kaplan-Meier median of the time until then.

    A run that never reaches this rate is censored at its end. The interval of the median is computed from
    log-log confidence bands (Brookmeyer and Crowley 1982). With fewer than `MIN_RUNS` runs, the interval is
    instead the range of the times, where a censored run counts as infinite. Times are steps or minutes.
    """
    times = [log.seconds / 60 if minutes else log.steps for log in logs]
    hits = [np.flatnonzero(log.success_rate >= threshold) for log in logs]
    ends = np.array([each[hit[0] if hit.size else -1] for each, hit in zip(times, hits, strict=True)], float)
    censored = np.array([not hit.size for hit in hits])
    reached = len(logs) - int(censored.sum())
    if np.isnan(ends).any():
        return reached, UNKNOWN
    survival = stats.ecdf(stats.CensoredData.right_censored(ends, censored)).sf

    def median(probabilities: np.ndarray) -> float:
        below = survival.quantiles[probabilities <= 0.5 + 1e-12]
        return float(below[0]) if below.size else math.inf

    value = median(survival.probabilities)
    if len(logs) < MIN_RUNS:
        exact = np.where(censored, math.inf, ends)
        return reached, Estimate(value, float(exact.min()), float(exact.max()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the band is NaN where the share is 0 or 1
        band = survival.confidence_interval(LEVEL, method="log-log")
    low = np.fmin(band.low.probabilities, survival.probabilities)
    return reached, Estimate(value, median(low), median(band.high.probabilities))


def draw_group(axes: Axes, logs: Sequence[RunLog], label: str, number: int, seed: int = 0) -> None:
    """Draw a group's learning curve with its interval, up to the last step at which all runs have a value.

    For fewer than `MIN_RUNS` runs, draw each run and the range of the runs instead of the interval.
    """
    first, last = max(log.steps[0] for log in logs), _common_steps(logs)
    steps = np.unique(np.concatenate([log.steps for log in logs]))
    steps = steps[(np.diff(steps, append=np.inf) > min(log.slack for log in logs)) & (steps >= first)]
    steps = np.append(steps[steps < last], last)
    steps = steps[np.unique(np.linspace(0, len(steps) - 1, MAX_POINTS).astype(int))]
    color, line = COLORS[number % len(COLORS)], LINES[number % len(LINES)]
    rates = np.array([log.success_at(steps) for log in logs])
    if len(logs) < MIN_RUNS:
        low, high = rates.min(axis=0), rates.max(axis=0)
        if len(logs) > 1:
            axes.plot(steps, rates.T, line, color=color, alpha=0.5, linewidth=0.8)
    else:
        low, high = _bootstrap(interquartile_mean, [rates], np.random.default_rng(seed), CURVE_RESAMPLES)
    axes.fill_between(steps, low, high, color=color, alpha=0.18, linewidth=0)
    # The curves of different groups have their markers at different steps.
    every = max(1, len(steps) // 8)
    axes.plot(
        steps,
        interquartile_mean(rates, axis=0),
        line,
        color=color,
        linewidth=2,
        marker=MARKERS[number % len(MARKERS)],
        markevery=(number * every // 3 % every, every),
        markersize=5,
        clip_on=False,
        label=f"{label} ({len(logs)} {'run' if len(logs) == 1 else 'runs'})",
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    cells = [[cell.replace("|", r"\|") for cell in row] for row in (header, *rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (cells[0], ["---"] * len(header), *cells[1:]))


def _cell(value: float, form: str) -> str:
    return "" if math.isnan(value) else "not reached" if math.isinf(value) else format(value, form)


def _estimate(each: Estimate, form: str) -> str:
    value, low, high = (_cell(number, form) for number in each)
    return value if not low or value == low == high else f"{value} ({low} to {high})"
