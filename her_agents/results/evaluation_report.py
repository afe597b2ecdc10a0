"""EvaluationReport: where a policy succeeds, by goal, by distance and over time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from scipy import stats

from her_agents.results.comparison import markdown_table
from her_agents.training.evaluation import EpisodeResult, Policy, play_episode
from her_wrappers.data.atomic import replacement
from her_wrappers.goals.interface import env_name, require_goal_space
from her_wrappers.support.arguments import require_count, require_suffix
from her_wrappers.support.pages import COLORS, html_image, html_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS = {1: 8, 2: 3, 3: 2}
"""Intervals per goal component in the grid of `by_region`, by the number of components that vary."""

SUFFIXES = (".html", ".json", ".md")


class Share(NamedTuple):
    """Success rate in a group of episodes (success in the last step), with its 95 % Wilson score interval."""

    name: str
    episodes: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class EvaluationReport:
    """Results of E episodes of a policy on a suite of goals.

    Attributes:
        policy: Name of the policy.
        env: Name of the environment.
        seed: Seed of the suite.
        starts: Achieved goals at the start, (E, G) float64.
        goals: Desired goals, (E, G) float64.
        is_success: Success flag after each step, (E, T) bool; T is the length of the longest episode. The
            rows of shorter episodes repeat their last flag.
        lengths: Number of steps of each episode, (E,) int64.
        returns: Sum of the rewards of each episode, (E,) float64.
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
    def suite(self) -> str:
        """Digest of starts and goals; reports with equal digests evaluated the same suite."""
        rounded = np.round([self.starts, self.goals], 6) + 0.0  # + 0.0: no negative zero
        return hashlib.sha256(rounded.tobytes()).hexdigest()[:8]

    def total(self) -> Share:
        """Return the success rate of all episodes together."""
        return self._share("all", np.arange(len(self.goals)))

    def by_region(self) -> list[Share]:
        """Return the success rate in each cell of a grid over the desired goals, without empty cells.

        Each goal component that varies between episodes is divided into equal intervals: 8 if one component
        varies, 3 if two vary, 2 if three vary. The list is empty if no component varies, or more than 3 vary.
        """
        varying = np.flatnonzero(np.ptp(self.goals, axis=0) > 0).tolist()
        count = CELLS.get(len(varying))
        if count is None:
            return []
        goals = self.goals[:, varying]
        edges = np.linspace(goals.min(axis=0), goals.max(axis=0), count + 1)  # (count + 1, components)
        inner = zip(goals.T, edges[1:-1].T, strict=True)
        cells = np.stack([np.searchsorted(inside, values, side="right") for values, inside in inner], axis=1)
        shares = []
        for cell in np.unique(cells, axis=0):
            low, high = np.take_along_axis(edges, np.array([cell, cell + 1]), axis=0)
            parts = [f"g{i} {a:.3g} to {b:.3g}" for i, a, b in zip(varying, low, high, strict=True)]
            shares.append(self._share(", ".join(parts), np.flatnonzero((cells == cell).all(axis=1))))
        return shares

    def by_distance(self) -> list[Share]:
        """Return the success rates of up to 5 groups of episodes, by distance from start to goal.

        The groups have equal numbers of episodes, up to a difference of 1. Small distances come first.
        """
        distances = np.linalg.norm(self.goals - self.starts, axis=1)
        groups = np.array_split(np.argsort(distances, kind="stable"), min(5, len(distances)))
        return [
            self._share(f"{distances[rows[0]]:.3g} to {distances[rows[-1]]:.3g}", rows) for rows in groups
        ]

    def over_time(self) -> np.ndarray:
        """Return two shares of episodes for each of T steps, (2, T).

        They are the share that is at the goal after the step, and the share that has been at the goal so far.
        """
        so_far = np.maximum.accumulate(self.is_success, axis=1)
        return np.array([self.is_success.mean(axis=0), so_far.mean(axis=0)])

    def _share(self, name: str, rows: np.ndarray) -> Share:
        successes = self.is_success[rows, -1]
        interval = stats.binomtest(int(successes.sum()), len(rows)).proportion_ci(method="wilson")
        return Share(name, len(rows), float(successes.mean()), float(interval.low), float(interval.high))

    def tables(self) -> str:
        """Return the success rates by region, by distance and over time, as tables in Markdown."""
        tables: dict[str, str] = {}  # by title
        groups = {"By goal": self.by_region(), "By distance from start to goal": self.by_distance()}
        for title, shares in groups.items():
            rows = [
                [s.name, str(s.episodes), f"{s.rate:.2f}", f"{s.low:.2f} to {s.high:.2f}"] for s in shares
            ]
            if rows:
                tables[title] = markdown_table(["", "episodes", "success", "95 % interval"], rows)
        at_goal = self.over_time()
        steps = np.unique(np.linspace(1, at_goal.shape[1], 11).astype(int))
        times = [[str(step), *(f"{each:.2f}" for each in at_goal[:, step - 1])] for step in steps]
        tables["Over time"] = markdown_table(["after step", "success", "success once"], times)
        return "\n\n".join(f"## {title}\n\n{table}" for title, table in tables.items())

    def summary(self) -> str:
        """Return one paragraph with the most important numbers."""
        _, episodes, rate, low, high = self.total()
        so_far = self.is_success.any(axis=1)
        left = int((so_far & ~self.is_success[:, -1]).sum())
        return (
            f"Success rate {rate:.3f} ({low:.3f} to {high:.3f}) in {episodes} episodes, success once "
            f"{so_far.mean():.3f}: {left} of {so_far.sum()} episodes that reach the goal leave it. Mean "
            f"return {self.returns.mean():.4g}, mean length {self.lengths.mean():.4g}. "
            f"Suite of goals {self.suite}, seed {self.seed}."
        )

    def markdown(self) -> str:
        """Return the report as Markdown, without the figure."""
        return f"# {self.policy} in {self.env}\n\n{self.summary()}\n\n{self.tables()}\n"

    def json(self) -> str:
        """Return the report as JSON: all attributes, and the success rates of all groups."""
        fields = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }
        groups = {"total": [self.total()], "by_region": self.by_region(), "by_distance": self.by_distance()}
        shares = {name: [each._asdict() for each in shares] for name, shares in groups.items()}
        return json.dumps({"suite": self.suite, **shares, "over_time": self.over_time().tolist(), **fields})

    def draw(self) -> Figure:
        """Plot success rates by distance, over time and, if 2 or 3 goal components vary, by goal."""
        from matplotlib.figure import Figure  # noqa: PLC0415 - slow

        varying = np.flatnonzero(np.ptp(self.goals, axis=0) > 0).tolist()
        pairs = list(combinations(varying, 2)) if len(varying) <= 3 else []
        rows = 2 if len(pairs) > 1 else 1
        figure = Figure(figsize=(11, 3.6 * rows), layout="constrained")
        *panels, distance, time = [figure.add_subplot(rows, 3, i + 1) for i in range(len(pairs) + 2)]
        for panel, (x, y) in zip(panels, pairs, strict=True):
            for value, label, marker in ((True, "success", "o"), (False, "failure", "x")):
                goals = self.goals[self.is_success[:, -1] == value]
                points = dict(zip("xy", goals[:, [x, y]].T, strict=True))
                panel.scatter(**points, s=20, c=COLORS[not value], marker=marker, alpha=0.7, label=label)
            panel.set(title="desired goals", xlabel=f"g{x}", ylabel=f"g{y}", aspect="equal")
            panel.legend(fontsize="small")
        shares = self.by_distance()
        rates = np.array([each.rate for each in shares])
        ends = np.abs(rates - np.array([(each.low, each.high) for each in shares]).T)
        distance.errorbar(range(len(shares)), rates, ends, fmt="o", color=COLORS[0], capsize=4)
        distance.set_xticks(range(len(shares)), [each.name for each in shares], rotation=25)
        distance.set(title="by distance", xlabel="distance from start to goal", ylabel="success rate")
        for i, label in enumerate(("success", "success once")):
            row = self.over_time()[i]
            time.plot(np.arange(1, len(row) + 1), row, "-:"[i], color=COLORS[i], linewidth=2, label=label)
        time.set(title="over time", xlabel="step", ylabel="share of episodes")
        time.legend(fontsize="small")
        for panel in (distance, time):
            panel.set_ylim(-0.03, 1.03)
        return figure

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the report; the suffix of ``path`` selects HTML with the figure, JSON, or Markdown (.md).

        Raises:
            OSError: The file cannot be written.
            ValueError: The path has another suffix.
        """
        suffix = require_suffix("path", path, SUFFIXES)
        if suffix in {".json", ".md"}:
            data = (self.json() if suffix == ".json" else self.markdown()).encode()
        else:
            body = f"{html_image(self.draw(), 'success')}\n<pre>{escape(self.tables())}</pre>"
            data = html_page(f"{self.policy} in {self.env}", self.summary(), body)
        with replacement(path) as file:
            file.write(data)


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

    Each episode begins with a seeded reset, so that all policies get the same starts and goals.

    Args:
        env: A goal environment whose episodes end, and whose infos have a success flag.
        policy: ``policy(observation) -> action``.
        episodes: Number of episodes, E. With the same seed, a shorter suite is the beginning of a longer one.
        seed: Seed of the suite, and of the action space, from which random policies sample.
        name: Name of the policy, for the report.
        on_episode: Function that is called with the result of each episode.

    Returns:
        The results of all episodes.

    Raises:
        TypeError: The goals are not arrays of one shape.
        ValueError: The environment is not a goal environment, ``episodes`` is below 1, ``seed`` is negative,
            ``reset(seed=...)`` does not determine start and goal, or the info of a step has no success flag.
    """
    require_count("episodes", episodes, at_least=1)
    require_count("seed", seed, at_least=0)
    goal_space = require_goal_space(env.observation_space)["desired_goal"]
    env.action_space.seed(seed)

    def reset(seed: int) -> list[np.ndarray]:
        observation, _ = env.reset(seed=seed)
        goals = observation["achieved_goal"], observation["desired_goal"]
        return [np.array(spaces.flatten(goal_space, goal), np.float64) for goal in goals]

    seeds = np.random.SeedSequence(seed).generate_state(episodes).tolist()
    if not np.array_equal(reset(seeds[0]), reset(seeds[0])):
        raise ValueError(
            "reset(seed=...) must determine start and goal, got different starts or goals for the same seed; "
            "draw all random numbers of reset() from self.np_random"
        )
    points, results = [], list[list[EpisodeResult]]()
    for each in seeds:
        points.append(reset(each))
        steps: list[EpisodeResult] = []
        on_episode(play_episode(env, policy, each, steps.append))
        results.append(steps[1:])  # without the result after the reset
    lengths = [len(steps) for steps in results]
    flags = [[step.success for step in steps + steps[-1:] * (max(lengths) - len(steps))] for steps in results]
    starts, goals = np.array(points).swapaxes(0, 1)
    returns = np.array([steps[-1].total for steps in results])
    return EvaluationReport(
        name, env_name(env), seed, starts, goals, np.array(flags), np.array(lengths), returns
    )
