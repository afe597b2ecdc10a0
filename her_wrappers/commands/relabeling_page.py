"""The page that ``her show-relabeling`` shows: an episode as it was beside the same one in hindsight.

Lengths are written for panels of 320 and scale with them. Colours are those of `her_envs.canvas`, told apart
by colour-blind people; what a colour says, a word says too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from her_envs.canvas import AGENT, FAINT, GOAL, REACHED
from her_wrappers.commands.hindsight import Hindsight
from her_wrappers.commands.panels import Panels, overlay
from her_wrappers.commands.paper import GREY, Colour, Paper, as_gif, as_png

MOST_FRAMES = 100
"""A GIF shows at most so many states of a longer episode."""

FIRST, LAST = 800, 3000
"""How long the first and the last picture stay [ms]."""

PANEL, MARGIN, INSET = 320, 10, 16
"""Side of a panel, what is around both, and how far inside of it a bundled task draws its frame."""

LINE = PANEL - 2 * INSET
WIDTH = 2 * (PANEL + MARGIN)
HEAD = 98
STRIP = HEAD + PANEL - INSET + 14
HEIGHT = STRIP + 72

STEPS_SHOWN, SMALL = 4, 154
"""Steps whose goals a still picture shows, and the side of each of its panels."""

HEIGHT_OF_GOALS = SMALL + 96


@dataclass(frozen=True, eq=False)
class Side:
    """What is said of one of the two panels.

    Attributes:
        title: Above it.
        goal: Where its goal is from.
        colour: Of its title's mark.
        rewards: (T,) of the steps under that goal.
        reached: (T,) which steps reach it.
    """

    title: str
    goal: str
    colour: Colour
    rewards: np.ndarray
    reached: np.ndarray

    def outcome(self, t: int) -> str:
        """Say how it went in the first ``t`` steps."""
        if t == 0:
            return "not yet reached"
        reached = np.flatnonzero(self.reached[:t])
        told = f"reached at step {reached[0] + 1}" if reached.size else "not reached"
        if len(np.unique(self.rewards)) > 2:
            return f"{told}: return {self.rewards[:t].sum():.3g}"
        return f"{told}: {reached.size} of {t} steps rewarded"


def sides_of(hindsight: Hindsight) -> tuple[Side, Side]:
    """Return what is said of an episode as it was, and in hindsight."""
    before = Side(
        "As it was: goal missed",
        "The goal is the one that the environment gave.",
        GOAL,
        hindsight.take.episode.rewards,
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


class Page:
    """Draws an episode under two goals.

    Args:
        name: Of the environment.
        hindsight: The episode.
        panels: Makes what draws its states in a size.
        size: Side of a panel [pixels].

    Attributes:
        sides: What is said of the two panels.
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
        """Return the states of a GIF: all, or as many as it may show."""
        count = min(self._length + 1, MOST_FRAMES)
        return [round(t) for t in np.linspace(0, self._length, count).tolist()]

    def gif(self, fps: int) -> bytes:
        """Return a moving picture of the states, ``fps`` a second."""
        papers = [self._paper(t, HEIGHT) for t in self.shown_states()]
        usual = 1000 // fps
        return as_gif(papers, [max(FIRST, usual), *[usual] * (len(papers) - 2), LAST])

    def png(self) -> bytes:
        """Return a still picture: the last state, and goals that hindsight gives to some of the steps."""
        paper = self._paper(self._length, HEIGHT + HEIGHT_OF_GOALS)
        self._draw_goals(paper)
        return as_png(paper)

    def _paper(self, t: int, height: float) -> Paper:
        paper = Paper(WIDTH, height, self._scale)
        paper.text("Hindsight Experience Replay", (MARGIN + INSET, 14), 24)
        paper.text(f"step {t} of {self._length}", (WIDTH - MARGIN - INSET, 21), 15, GREY, right=True)
        goal_state = self._hindsight.goal_state
        pictures = self._panels.as_it_was(t), self._panels.in_hindsight(t, goal_state)
        for column, (side, picture) in enumerate(zip(self.sides, pictures, strict=True)):
            left = MARGIN + column * PANEL
            paper.picture(picture, (left, HEAD))
            paper.box((left + INSET, 60), 4, 38, side.colour)
            paper.text(side.title, (left + INSET + 12, 58), 18)
            paper.text(side.goal, (left + INSET + 12, 82), 13, GREY)
            self._draw_rewards(paper, left + INSET, side, t)
        source = f"{self._name}, seed {self._hindsight.take.seed}"
        paper.text(source, (MARGIN + INSET, HEIGHT - 24), 11, GREY)
        return paper

    def _draw_rewards(self, paper: Paper, left: float, side: Side, t: int) -> None:
        """Draw a bar for the reward of each step so far, in one scale on both sides."""
        rewards = np.concatenate([each.rewards for each in self.sides])
        least, extent = rewards.min(), max(np.ptp(rewards), 1e-9)
        cell = LINE / self._length
        width = cell - 1 if cell >= 4 else cell  # a gap needs some room beside it
        for step in range(self._length):
            place, share = left + step * cell, float(side.rewards[step] - least) / extent
            if step >= t:
                paper.box((place, STRIP + 12), width, 2, FAINT)
                continue
            paper.box((place, STRIP), width, 14, FAINT)
            colour = REACHED if side.reached[step] else AGENT
            paper.box((place, STRIP + 14 - 14 * share), width, 14 * share, colour)
        paper.text(side.outcome(t), (left, STRIP + 20), 13)

    def _draw_goals(self, paper: Paper) -> None:
        """Draw some of the steps with the goals that their copies got."""
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
            paper.text(f"goals {', '.join(map(str, goals))}", (left, top + 18), 12, GREY)
            paper.text(f"pay {', '.join(f'{reward:.2g}' for reward in rewards)}", (left, top + 34), 12, GREY)

    def _goals_of(self, t: int, goals: np.ndarray) -> np.ndarray:
        """Draw the state after a step, several goals and the way to them."""
        if not self._small_panels.goals_are_places:
            return self._small_panels.in_hindsight(t + 1, int(goals[0]))
        first, *others = (self._small_panels.in_hindsight(t + 1, int(goal)) for goal in goals)
        for other in others:
            first = overlay(first, other, 1.0)
        way = self._small_panels.in_hindsight(self._length, int(goals[0]))
        return overlay(first, way, 0.4)
