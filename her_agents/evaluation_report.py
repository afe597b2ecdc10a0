"""EvaluationReport: where a policy succeeds, by goal, by distance and over time."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import os
from dataclasses import dataclass
from html import escape
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from scipy import stats

from her_agents.evaluation import EpisodeResult, Policy, play_episode
from her_wrappers.arguments import require_count
from her_wrappers.files.atomic import replacement
from her_wrappers.goal_interface import env_name, require_goal_space

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

CELLS = {1: 8, 2: 3, 3: 2}
"""Number of intervals of each component of the goal, by the number of components that vary."""

DISTANCES = 5
"""Number of groups of equal size by distance."""

REPORTS = (".html", ".json", ".md")

BLUE, VERMILLION, GRAY = "#0072b2", "#d55e00", "#555555"

PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }}
h1 {{ font-size: 1.4rem; overflow-wrap: anywhere; }} img {{ max-width: 100%; background: #fff; }}
table {{ border-collapse: collapse; margin: 1rem 0; }} td, th {{ padding: .2rem .8rem; text-align: left; }}
tr {{ border-bottom: 1px solid #8888; }}
</style></head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


class Share(NamedTuple):
    """Share of successful episodes in a group of episodes.

    Attributes:
        name: Name of the group.
        episodes: Number of episodes.
        rate: Share of the episodes whose last step is a success.
        low: Lower end of the 95 % interval of Wilson.
        high: Upper end.
    """

    name: str
    episodes: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class EvaluationReport:
    """Results of E episodes of a policy, whose starts and goals depend only on environment and seed.

    Attributes:
        policy: Name of the policy.
        env: Name of the environment.
        seed: Seed of the suite of goals.
        starts: Achieved goals at the start, (E, G) float64.
        goals: Desired goals, (E, G) float64.
        is_success: Whether the goal is reached after each step, (E, T) bool; after the end of an episode, the
            value of its last step.
        lengths: Number of steps, (E,) int64.
        returns: Sum of the rewards, (E,) float64.
    """

    policy: str
    env: str
    seed: int
    starts: np.ndarray
    goals: np.ndarray
    is_success: np.ndarray
    lengths: np.ndarray
    returns: np.ndarray

    @property
    def distances(self) -> np.ndarray:
        """Euclidean distance of achieved and desired goal at the start, (E,) float64."""
        distances: np.ndarray = np.linalg.norm(self.goals - self.starts, axis=1)
        return distances

    @property
    def suite(self) -> str:
        """Digest of all starts and goals; reports with equal digests met the same goals."""
        rounded = np.round(np.concatenate([self.starts, self.goals]), 6) + 0.0  # + 0.0: no negative zero
        return hashlib.sha256(rounded.tobytes()).hexdigest()[:8]

    def total(self) -> Share:
        """Return the share of successes of all episodes."""
        return self._share("all", np.ones(len(self.goals), bool))

    def by_region(self) -> list[Share]:
        """Return the share of successes in each cell of a grid of goals.

        The grid divides the range of each component of the goal that varies: into 8 intervals if one
        component varies, 3 if two vary, 2 if three vary. With more, each component is divided by itself.
        """
        low, high = self.goals.min(axis=0), self.goals.max(axis=0)
        varying = np.flatnonzero(high > low)
        count = CELLS.get(len(varying), 2)
        edges = {each: np.linspace(low[each], high[each], count + 1) for each in varying.tolist()}
        cells = {
            each: np.clip(np.searchsorted(edges[each], self.goals[:, each], "right") - 1, 0, count - 1)
            for each in edges
        }
        grids = [tuple(edges)] if len(edges) in CELLS else [(each,) for each in edges]
        shares = []
        for components in grids:
            for cell in product(range(count), repeat=len(components)):
                rows = np.all([cells[each] == i for each, i in zip(components, cell, strict=True)], axis=0)
                name = ", ".join(
                    f"g{each} {edges[each][i]:.3g} to {edges[each][i + 1]:.3g}"
                    for each, i in zip(components, cell, strict=True)
                )
                shares += [self._share(name, rows)] if rows.any() else []
        return shares

    def by_distance(self) -> list[Share]:
        """Return the share of successes in five groups of equal size, from near to far goals."""
        groups = np.array_split(np.argsort(self.distances, kind="stable"), min(DISTANCES, len(self.goals)))
        ends = [(self.distances[group[0]], self.distances[group[-1]]) for group in groups]
        return [
            self._share(f"{low:.3g} to {high:.3g}", group)
            for group, (low, high) in zip(groups, ends, strict=True)
        ]

    def over_time(self) -> np.ndarray:
        """Return two rows of shares of the episodes after each step, (2, T) float64.

        The first row counts episodes in which the goal is reached at the step, the second row those in which
        it was reached at the step or before.
        """
        reached = np.maximum.accumulate(self.is_success, axis=1)
        return np.array([self.is_success.mean(axis=0), reached.mean(axis=0)])

    def _share(self, name: str, rows: np.ndarray) -> Share:
        successes = self.is_success[rows, -1]
        interval = stats.binomtest(int(successes.sum()), len(successes)).proportion_ci(method="wilson")
        return Share(name, len(successes), float(successes.mean()), interval.low, interval.high)

    def _tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """Return title, header and rows of each table."""
        header = ["", "episodes", "success", "95 % interval"]
        tables = [
            (
                title,
                header,
                [
                    [each.name, str(each.episodes), f"{each.rate:.2f}", f"{each.low:.2f} to {each.high:.2f}"]
                    for each in shares
                ],
            )
            for title, shares in (
                ("All goals", [self.total()]),
                ("By goal (component of the desired goal)", self.by_region()),
                ("By distance from the start to the goal", self.by_distance()),
            )
        ]
        shares = self.over_time()
        steps = np.unique(np.linspace(1, shares.shape[1], 11).astype(int))
        rows = [[str(step), *(f"{each:.2f}" for each in shares[:, step - 1])] for step in steps]
        return [*tables, ("Over time", ["after step", "at the goal", "reached so far"], rows)]

    def title(self) -> str:
        """Return one line with policy and environment."""
        return f"{self.policy} in {self.env}"

    def summary(self) -> str:
        """Return one paragraph with the most important numbers."""
        total, first = (
            self.total(),
            np.where(self.is_success.any(axis=1), self.is_success.argmax(axis=1) + 1.0, np.inf),
        )
        at_end, ever = self.is_success[:, -1], self.is_success.any(axis=1)
        median = float(np.median(first))
        until = (
            f"{median:g} steps until the first success (median)"
            if math.isfinite(median)
            else "most episodes never reach the goal"
        )
        return (
            f"Success rate {total.rate:.3f} ({total.low:.3f} to {total.high:.3f}), {total.episodes} episodes; "
            f"{int((ever & ~at_end).sum())} reach the goal and leave it; {until}; mean return "
            f"{self.returns.mean():.4g}; mean length {self.lengths.mean():.4g}; suite of goals {self.suite} "
            f"(seed {self.seed})."
        )

    def markdown(self, picture: str | None = None) -> str:
        """Return the report as Markdown; ``picture`` is the path of the figure."""
        parts = [f"# {self.title()}", self.summary()]
        if picture is not None:
            parts.append(f"![Success by goal, by distance and over time]({picture})")
        for title, header, rows in self._tables():
            lines = [header, ["---"] * len(header), *rows]
            parts += [f"## {title}", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
        return "\n\n".join(parts) + "\n"

    def json(self) -> str:
        """Return the report as JSON, with all episodes."""
        groups = {"total": [self.total()], "by_region": self.by_region(), "by_distance": self.by_distance()}
        at_goal, reached = self.over_time().tolist()
        content = {
            **{name: getattr(self, name) for name in ("policy", "env", "seed", "suite")},
            **{name: [each._asdict() for each in shares] for name, shares in groups.items()},
            "over_time": {"at_goal": at_goal, "reached": reached},
            "episodes": {
                "start": self.starts.tolist(),
                "goal": self.goals.tolist(),
                "success": self.is_success[:, -1].tolist(),
                "length": self.lengths.tolist(),
                "return": self.returns.tolist(),
            },
        }
        return json.dumps(content, indent=1, allow_nan=False) + "\n"

    def draw(self) -> Figure:
        """Return a figure: goals of two or three components that vary, success by distance and over time."""
        from matplotlib.figure import Figure  # noqa: PLC0415 - slow

        varying = np.flatnonzero(np.ptp(self.goals, axis=0) > 0).tolist()
        pairs = list(combinations(varying, 2)) if len(varying) in {2, 3} else []
        columns = 3 if len(pairs) == 1 else max(2, len(pairs))
        rows = 2 if len(pairs) == 3 else 1
        figure = Figure(figsize=(3.8 * columns, 3.6 * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).flat
        success = self.is_success[:, -1]
        for panel, (x, y) in zip(axes, pairs, strict=False):
            for chosen, marker, color, label in (
                (success, "o", BLUE, "success"),
                (~success, "x", VERMILLION, "failure"),
            ):
                panel.scatter(
                    *self.goals[chosen][:, [x, y]].T, s=22, marker=marker, color=color, alpha=0.7, label=label
                )
            panel.set(
                title="desired goals", xlabel=f"g{x}", ylabel=f"g{y}", aspect="equal", adjustable="datalim"
            )
            panel.legend(fontsize="small")
        distance, time = list(axes)[len(pairs) : len(pairs) + 2]
        shares = self.by_distance()
        bounds = np.array([(each.rate - each.low, each.high - each.rate) for each in shares]).T
        distance.errorbar(
            range(len(shares)), [each.rate for each in shares], bounds, fmt="o", color=BLUE, capsize=4
        )
        distance.set_xticks(range(len(shares)), [each.name for each in shares], rotation=25, fontsize="small")
        distance.set(
            title="by distance",
            xlabel="distance from the start to the goal",
            ylabel="success rate",
            ylim=(-0.03, 1.03),
        )
        at_goal, reached = self.over_time()
        steps = np.arange(1, len(at_goal) + 1)
        time.plot(steps, at_goal, color=BLUE, label="at the goal")
        time.plot(steps, reached, "--", color=GRAY, label="reached so far")
        time.set(title="over time", xlabel="step", ylabel="share of episodes", ylim=(-0.03, 1.03))
        time.legend(fontsize="small")
        for panel in list(axes)[len(pairs) + 2 :]:
            panel.remove()
        return figure

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the report, by the suffix: .html, one file; .md, with a .png beside it; or .json.

        Raises:
            OSError: The file cannot be written.
            ValueError: The suffix is another one.
        """
        path, suffix = Path(path), require_report_suffix(path)
        picture = io.BytesIO()
        if suffix != ".json":
            self.draw().savefig(picture, format="png", dpi=120)
        if suffix == ".html":
            data = base64.b64encode(picture.getvalue()).decode()
            image = f'<img alt="success" src="data:image/png;base64,{data}">'
            parts = [f"<p>{escape(self.summary())}</p>", image]
            for title, header, rows in self._tables():
                lines = "\n".join(
                    f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
                )
                head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
                parts.append(f"<h2>{escape(title)}</h2>\n<table>\n<tr>{head}</tr>\n{lines}\n</table>")
            text = PAGE.format(title=escape(self.title()), body="\n".join(parts))
        elif suffix == ".md":
            image_path = path.with_suffix(".png")
            with replacement(image_path) as file:
                file.write(picture.getbuffer())
            text = self.markdown(image_path.name)
        else:
            text = self.json()
        with replacement(path) as file:
            file.write(text.encode())


def evaluate_goals(
    env: gym.Env[Any, Any],
    policy: Policy,
    *,
    episodes: int = 200,
    seed: int = 0,
    name: str = "policy",
    on_episode: Callable[[EpisodeResult], None] = lambda result: None,
) -> EvaluationReport:
    """Evaluate a policy on a suite of goals that depends only on the environment and the seed.

    Each episode begins with a seeded reset, so that all policies meet the same starts and goals.

    Args:
        env: A goal environment with a success flag in its infos, whose episodes end.
        policy: ``policy(observation) -> action``.
        episodes: Number of episodes, E; a shorter suite is the beginning of a longer one.
        seed: Seed of the suite; suites of different seeds have different goals.
        name: Name of the policy, for the report.
        on_episode: Called with the result of each episode.

    Returns:
        The results of all episodes.

    Raises:
        TypeError: The environment is not a goal environment.
        ValueError: ``episodes`` is below 1, ``seed`` is negative, ``reset(seed=...)`` does not determine start
            and goal, or the info of a step has no success flag.
    """
    require_count("episodes", episodes, at_least=1)
    require_count("seed", seed, at_least=0)
    goal_space = require_goal_space(env.observation_space)["desired_goal"]
    env.action_space.seed(seed)  # of random policies

    def flat(goal: Any) -> np.ndarray:
        vector: np.ndarray = np.asarray(spaces.flatten(goal_space, goal), np.float64).reshape(-1)
        return vector

    def reset(each: int) -> list[np.ndarray]:
        observation, _ = env.reset(seed=each)
        return [flat(observation["achieved_goal"]), flat(observation["desired_goal"])]

    seeds = np.random.SeedSequence(seed).generate_state(episodes).tolist()
    if not np.array_equal(reset(seeds[0]), reset(seeds[0])):
        raise ValueError(
            "reset(seed=...) must determine start and goal, got different ones for the same seed; use the "
            "generator self.np_random in reset()"
        )
    points, results = [], list[list[EpisodeResult]]()
    for each in seeds:
        points.append(reset(each))
        steps: list[EpisodeResult] = []
        on_episode(play_episode(env, policy, each, steps.append))
        results.append(steps[1:])  # without the result after the reset
    longest = max(map(len, results))
    starts, goals = np.array(points).swapaxes(0, 1)
    return EvaluationReport(
        name,
        env_name(env),
        seed,
        starts,
        goals,
        np.array([
            [step.success for step in steps + steps[-1:] * (longest - len(steps))] for steps in results
        ]),
        np.array([len(steps) for steps in results]),
        np.array([steps[-1].total for steps in results]),
    )


def require_report_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a file that `EvaluationReport.write` can write.

    Raises:
        ValueError: The suffix is another one.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in REPORTS:
        raise ValueError(f"the name of the file must end with {', '.join(REPORTS)}, got {os.fspath(path)!r}")
    return suffix
