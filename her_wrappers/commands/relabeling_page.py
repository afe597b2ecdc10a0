"""The picture of ``her show-relabeling``: an episode with its own goal, and with a goal that it achieved.

Lengths are for panels of 320 pixels, and are scaled with the size of the panels. The colors are those of
`her_envs.canvas`, which color-blind people can distinguish; the text repeats the meaning of each color.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from her_envs.canvas import AGENT, FAINT, GOAL, REACHED
from her_wrappers.commands.hindsight import Hindsight
from her_wrappers.commands.panels import Panels, overlay
from her_wrappers.commands.paper import GRAY, Color, Paper, as_gif, as_png

MAX_FRAMES = 100
"""Maximal number of states that a GIF shows."""

FIRST, LAST = 800, 3000
"""Smallest duration of the first picture, and duration of the last picture [ms]."""

PANEL, MARGIN, INSET = 320, 10, 16
"""Side of a panel, margin around both panels, and inset of the frame that a task draws in a panel."""

LINE = PANEL - 2 * INSET
WIDTH = 2 * (PANEL + MARGIN)
HEAD = 98
STRIP = HEAD + PANEL - INSET + 14
HEIGHT = STRIP + 72

STEPS_SHOWN, SMALL = 4, 154
"""Number of steps whose goals a PNG shows, and the side of their panels."""

HEIGHT_OF_GOALS = SMALL + 96


@dataclass(frozen=True, eq=False)
class Side:
    """Text and rewards of one of the two panels.

    Attributes:
        title: Title of the panel.
        goal: Sentence about the origin of the goal.
        color: Color of the mark at the title.
        rewards: (T,) rewards for the goal.
        reached: (T,) bool, steps that reach the goal.
    """

    title: str
    goal: str
    color: Color
    rewards: np.ndarray
    reached: np.ndarray

    def outcome(self, t: int) -> str:
        """Return a text about the first ``t`` steps: whether the goal was reached, and the rewards."""
        if t == 0:
            return "not yet reached"
        reached = np.flatnonzero(self.reached[:t])
        result = f"reached at step {reached[0] + 1}" if reached.size else "not reached"
        if len(np.unique(self.rewards)) > 2:
            return f"{result}: return {self.rewards[:t].sum():.3g}"
        return f"{result}: {reached.size} of {t} steps rewarded"


def sides_of(hindsight: Hindsight) -> tuple[Side, Side]:
    """Return the texts of the panels with the episode's own goal, and with the new goal."""
    before = Side(
        "As it was: goal missed",
        "The goal is the one that the environment gave.",
        GOAL,
        hindsight.rendered.episode.rewards,
        hindsight.reached_before,
    )
    after = Side(
        f"In hindsight: goal {'reached' if hindsight.reached_after.any() else 'missed'}",
        f"The goal is what step {hindsight.goal_state} achieved ({hindsight.strategy}).",
        REACHED,
        hindsight.rewards,
        hindsight.reached_after,
    )
    return before, after


class RelabelingPage:
    """Draws an episode with two goals.

    Args:
        name: Name of the environment.
        hindsight: The episode and its relabeling.
        panels: Returns the panels of a given size.
        size: Side of a panel [pixels].

    Attributes:
        sides: Text and rewards of the two panels.
    """

    def __init__(self, name: str, hindsight: Hindsight, panels: Callable[[int], Panels], size: int) -> None:
        self._name = name
        self._hindsight = hindsight
        self._panels = panels(size)
        self._small_panels = panels(round(SMALL * size / PANEL))
        self._scale = size / PANEL
        self.sides = sides_of(hindsight)
        self._length = len(hindsight.rewards)

    def shown_states(self) -> list[int]:
        """Return the numbers of the states that a GIF shows, at most `MAX_FRAMES`."""
        count = min(self._length + 1, MAX_FRAMES)
        return [round(t) for t in np.linspace(0, self._length, count).tolist()]

    def gif(self, fps: int) -> bytes:
        """Return a GIF with ``fps`` states per second; the first and the last state are shown longer."""
        papers = [self._paper(t, HEIGHT) for t in self.shown_states()]
        usual = 1000 // fps
        return as_gif(papers, [max(FIRST, usual), *[usual] * (len(papers) - 2), LAST])

    def png(self) -> bytes:
        """Return a PNG: the last state, and the new goals of some steps."""
        paper = self._paper(self._length, HEIGHT + HEIGHT_OF_GOALS)
        self._draw_goals(paper)
        return as_png(paper)

    def _paper(self, t: int, height: float) -> Paper:
        paper = Paper(WIDTH, height, self._scale)
        paper.text("Hindsight Experience Replay", (MARGIN + INSET, 14), 24)
        paper.text(f"step {t} of {self._length}", (WIDTH - MARGIN - INSET, 21), 15, GRAY, right=True)
        goal_state = self._hindsight.goal_state
        pictures = self._panels.with_own_goal(t), self._panels.with_goal_of(t, goal_state)
        for column, (side, picture) in enumerate(zip(self.sides, pictures, strict=True)):
            left = MARGIN + column * PANEL
            paper.picture(picture, (left, HEAD))
            paper.box((left + INSET, 60), 4, 38, side.color)
            paper.text(side.title, (left + INSET + 12, 58), 18)
            paper.text(side.goal, (left + INSET + 12, 82), 13, GRAY)
            self._draw_rewards(paper, left + INSET, side, t)
        source = f"{self._name}, seed {self._hindsight.rendered.seed}"
        paper.text(source, (MARGIN + INSET, HEIGHT - 24), 11, GRAY)
        return paper

    def _draw_rewards(self, paper: Paper, left: float, side: Side, t: int) -> None:
        """Draw a bar for the reward of each of the first ``t`` steps, in one scale for both panels."""
        rewards = np.concatenate([each.rewards for each in self.sides])
        least, extent = rewards.min(), max(np.ptp(rewards), 1e-9)
        cell = LINE / self._length
        width = cell - 1 if cell >= 4 else cell  # a gap between bars needs room
        for step in range(self._length):
            place, share = left + step * cell, float(side.rewards[step] - least) / extent
            if step >= t:
                paper.box((place, STRIP + 12), width, 2, FAINT)
                continue
            paper.box((place, STRIP), width, 14, FAINT)
            color = REACHED if side.reached[step] else AGENT
            paper.box((place, STRIP + 14 - 14 * share), width, 14 * share, color)
        paper.text(side.outcome(t), (left, STRIP + 20), 13)

    def _draw_goals(self, paper: Paper) -> None:
        """Draw some of the steps with the goals of their copies."""
        copies = self._hindsight.copies
        count = len(copies.rewards) // self._length
        title = f"Goals for some of the steps: {count} each, by the strategy {self._hindsight.strategy}"
        paper.text(title, (MARGIN + INSET, HEIGHT), 16)
        inset = SMALL * INSET / PANEL
        frame = SMALL - 2 * inset
        for column, t in enumerate(np.linspace(0, self._length - 1, STEPS_SHOWN).round().astype(int)):
            left = MARGIN + INSET + column * (WIDTH - 2 * MARGIN - 2 * INSET - frame) / (STEPS_SHOWN - 1)
            rows = slice(t * count, (t + 1) * count)
            order = np.argsort(copies.goal_index[rows], kind="stable")
            goals, rewards = copies.goal_index[rows][order] + 1, copies.rewards[rows][order]
            paper.picture(self._goals_of(int(t), goals), (left - inset, HEIGHT + 24))
            top = HEIGHT + 24 + SMALL
            paper.text(f"step {t + 1}", (left, top), 13)
            paper.text(f"goals {', '.join(map(str, goals))}", (left, top + 18), 12, GRAY)
            paper.text(f"pay {', '.join(f'{reward:.2g}' for reward in rewards)}", (left, top + 34), 12, GRAY)

    def _goals_of(self, t: int, goals: np.ndarray) -> np.ndarray:
        """Draw the state after a step, several goals, and the path of the episode."""
        if not self._small_panels.goals_are_places:
            return self._small_panels.with_goal_of(t + 1, int(goals[0]))
        first, *others = (self._small_panels.with_goal_of(t + 1, int(goal)) for goal in goals)
        for other in others:
            first = overlay(first, other, 1.0)
        path = self._small_panels.with_goal_of(self._length, int(goals[0]))
        return overlay(first, path, 0.4)
