"""The picture of ``her show-relabeling``: an episode with its own goal, and with a goal that it achieved.

This is the only module that imports pillow. Lengths are for panels of 320 pixels, and are scaled with the
size of the panels. The colors are those of `her_envs.canvas`, which color-blind people can distinguish; the
text repeats the meaning of each color.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from her_envs import TaskEnv
from her_envs.canvas import AGENT, BACKGROUND, FAINT, GOAL, INK, REACHED, Canvas
from her_envs.pictures import Painter
from her_wrappers.commands.show_relabeling import Hindsight

Color = tuple[int, int, int]

GRAY: Color = (110, 110, 108)

MAX_FRAMES = 100
"""Maximal number of states that a GIF shows."""

FIRST, USUAL, LAST = 800, 100, 3000
"""Duration of the first picture, of each further one, and of the last picture of a GIF [ms]."""

GHOST = 0.3
"""Opacity of the episode's own goal in the picture with the new goal."""

PANEL, MARGIN, INSET = 320, 10, 16
"""Side of a panel, margin around both panels, and inset of the frame that a task draws in a panel."""

LINE = PANEL - 2 * INSET
WIDTH = 2 * (PANEL + MARGIN)
HEAD = 98
STRIP = HEAD + PANEL - INSET + 14
HEIGHT = STRIP + 72


@dataclass(frozen=True, eq=False)
class Side:
    """Text and rewards of one of the two panels."""

    title: str
    goal: str
    color: Color  # of the mark at the title
    rewards: np.ndarray  # (T,), for the goal of the panel
    reached: np.ndarray  # (T,) bool, steps that reach the goal

    def outcome(self, t: int) -> str:
        """Return a text about the first ``t`` steps: whether the goal was reached, and the rewards."""
        if t == 0:
            return "not yet reached"
        reached = np.flatnonzero(self.reached[:t])
        result = f"reached at step {reached[0] + 1}" if reached.size else "not reached"
        if len(np.unique(self.rewards)) > 2:
            return f"{result}: return {self.rewards[:t].sum():.3g}"
        return f"{result}: {reached.size} of {t} steps rewarded"


class RelabelingPage:
    """Draws an episode with two goals.

    Args:
        name: Name of the environment and seed of the episode.
        hindsight: The episode and its relabeling.
        env: The environment.
        strategy: Goal selection strategy.
        size: Side of a panel [pixels].

    Attributes:
        sides: Text and rewards of the two panels.

    Raises:
        ValueError: The environment is not a bundled task, and its goals are not vectors.
    """

    def __init__(
        self, name: str, hindsight: Hindsight, env: gym.Env[Any, Any], strategy: str, size: int
    ) -> None:
        self._name = name
        self._length = len(hindsight.rewards)
        self._scale = size / PANEL
        is_task = isinstance(env.unwrapped, TaskEnv)
        self._panels = (TaskPanels if is_task else ChartPanels)(env, hindsight, size)
        after = "reached" if hindsight.reached_after.any() else "missed"
        self.sides = (
            Side(
                "As it was: goal missed",
                "The goal is the one that the environment gave.",
                GOAL,
                hindsight.episode.rewards,
                hindsight.reached_before,
            ),
            Side(
                f"In hindsight: goal {after}",
                f"The goal is what step {hindsight.goal_state} achieved ({strategy}).",
                REACHED,
                hindsight.rewards,
                hindsight.reached_after,
            ),
        )

    def gif(self) -> bytes:
        """Return a GIF of at most `MAX_FRAMES` states, with 256 colors for all of them."""
        count = min(self._length + 1, MAX_FRAMES)
        pages = [self._page(round(t)) for t in np.linspace(0, self._length, count).tolist()]
        samples = np.concatenate([np.asarray(page) for page in (pages[0], pages[-1])])
        palette = Image.fromarray(samples).quantize(256, dither=Image.Dither.NONE)
        # Without dithering, parts that do not move are equal in all pages, so the file stays small.
        first, *others = (page.quantize(palette=palette, dither=Image.Dither.NONE) for page in pages)
        durations = [FIRST, *[USUAL] * (count - 2), LAST]
        file = io.BytesIO()
        first.save(file, "GIF", save_all=True, append_images=others, duration=durations, loop=0)
        return file.getvalue()

    def png(self) -> bytes:
        """Return a PNG of the last state."""
        file = io.BytesIO()
        self._page(self._length).save(file, "PNG", optimize=True)
        return file.getvalue()

    def _page(self, t: int) -> Image.Image:
        """Draw state ``t`` in both panels, with texts and the rewards so far."""
        page = Image.new("RGB", (self._px(WIDTH), self._px(HEIGHT)), BACKGROUND)
        draw = ImageDraw.Draw(page)
        self._text(draw, "Hindsight Experience Replay", (MARGIN + INSET, 14), 24)
        at = (WIDTH - MARGIN - INSET, 21)
        self._text(draw, f"step {t} of {self._length}", at, 15, GRAY, anchor="ra")
        for column, side in enumerate(self.sides):
            left = MARGIN + column * PANEL
            picture = self._panels.draw(t, is_relabeled=bool(column))
            page.paste(Image.fromarray(picture), (self._px(left), self._px(HEAD)))
            self._box(draw, (left + INSET, 60), 4, 38, side.color)
            self._text(draw, side.title, (left + INSET + 12, 58), 18)
            self._text(draw, side.goal, (left + INSET + 12, 82), 13, GRAY)
            self._draw_rewards(draw, left + INSET, side, t)
        self._text(draw, self._name, (MARGIN + INSET, HEIGHT - 24), 11, GRAY)
        return page

    def _draw_rewards(self, draw: ImageDraw.ImageDraw, left: float, side: Side, t: int) -> None:
        """Draw a bar for the reward of each of the first ``t`` steps, in one scale for both panels."""
        rewards = np.concatenate([each.rewards for each in self.sides])
        least, extent = rewards.min(), max(np.ptp(rewards), 1e-9)
        cell = LINE / self._length
        width = cell - 1 if cell >= 4 else cell  # a gap between bars needs room
        for step in range(self._length):
            place, share = left + step * cell, float(side.rewards[step] - least) / extent
            if step >= t:
                self._box(draw, (place, STRIP + 12), width, 2, FAINT)
                continue
            self._box(draw, (place, STRIP), width, 14, FAINT)
            color = REACHED if side.reached[step] else AGENT
            self._box(draw, (place, STRIP + 14 - 14 * share), width, 14 * share, color)
        self._text(draw, side.outcome(t), (left, STRIP + 20), 13)

    def _px(self, length: float) -> int:
        return round(length * self._scale)

    def _text(
        self,
        draw: ImageDraw.ImageDraw,
        text: str,
        at: tuple[float, float],
        size: float,
        color: Color = INK,
        *,
        anchor: str = "la",
    ) -> None:
        font = ImageFont.load_default(size * self._scale)
        draw.text((at[0] * self._scale, at[1] * self._scale), text, color, font, anchor)

    def _box(
        self, draw: ImageDraw.ImageDraw, at: tuple[float, float], width: float, height: float, color: Color
    ) -> None:
        left, top = map(self._px, at)
        right, bottom = self._px(at[0] + width) - 1, self._px(at[1] + height) - 1
        if left <= right and top <= bottom:
            draw.rectangle((left, top, right, bottom), color)


class TaskPanels:
    """Draws the states of a bundled task with either goal; arguments as of `ChartPanels`."""

    def __init__(self, env: gym.Env[Any, Any], hindsight: Hindsight, size: int) -> None:
        self._task = env.unwrapped.task  # type: ignore[attr-defined] # a TaskEnv
        self._states = hindsight.frames
        self._size = size
        achieved = self._states[hindsight.goal_state]
        self._goal = self._task.reached_goal(achieved)
        seen = self._task.observe(achieved | {"goal": self._goal})
        if not np.array_equal(seen["desired_goal"], seen["achieved_goal"]):
            raise ValueError(
                f"reached_goal(state) of {type(self._task).__name__} must return a goal for which observe() "
                f"returns a desired_goal equal to achieved_goal, got {seen['desired_goal']} and "
                f"{seen['achieved_goal']}"
            )

    def draw(self, t: int, *, is_relabeled: bool) -> np.ndarray:
        """Draw state ``t``."""
        own = self._draw(t, self._states[t]["goal"])
        if not is_relabeled:
            return own
        new = self._draw(t, self._goal)
        goals_are_places = self._task.trail_points(self._states[0], 0)
        return _overlay(new, own) if goals_are_places else new

    def _draw(self, t: int, goal: Any) -> np.ndarray:
        painter = Painter(self._task)
        for state in self._states[: t + 1]:
            painter.append(state | {"goal": goal})
        return painter.draw_picture(0, t, self._size)


class ChartPanels:
    """Draws the pictures that an environment rendered, and a chart of its achieved goals.

    The chart shows the two components that vary most, with one scale for both axes.

    Args:
        env: The environment.
        hindsight: The episode and its relabeling.
        size: Side of each picture [pixels].

    Raises:
        ValueError: The goals are not vectors.
    """

    def __init__(self, env: gym.Env[Any, Any], hindsight: Hindsight, size: int) -> None:
        goal_space = env.observation_space["achieved_goal"]  # type: ignore[index] # that of a goal environment
        if len(goal_space.shape or ()) != 1:
            raise ValueError(
                f"a chart needs goals that are vectors, from a space of shape (G,), got {goal_space}"
            )
        observations: Any = hindsight.episode.observations
        achieved, desired = (
            observations[key].astype(np.float64) for key in ("achieved_goal", "desired_goal")
        )
        both = np.concatenate([achieved, desired])
        self._axes = np.sort(np.argsort(-np.ptp(both, axis=0), kind="stable")[:2])
        both = both[:, self._axes]
        middle, extent = (both.max(axis=0) + both.min(axis=0)) / 2, max(np.ptp(both, axis=0).max(), 1e-9)
        places = 0.5 + 0.7 * (both - middle) / extent  # in the unit square
        places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])), constant_values=0.5)
        self._achieved, self._desired = places[: len(achieved)], places[len(achieved) :]
        self._goal = self._achieved[hindsight.goal_state]
        self._frames = hindsight.frames
        self._size = size

    def draw(self, t: int, *, is_relabeled: bool) -> np.ndarray:
        """Draw state ``t``: the chart with the new goal, or the rendered picture if there is one."""
        if is_relabeled:
            return _overlay(self._chart(t, self._goal), self._chart(t, self._desired[t]))
        if not self._frames:
            return self._chart(t, self._desired[t])
        margin = self._size // 20  # that of the chart
        inside = (self._size - 2 * margin, self._size - 2 * margin)
        frame = Image.fromarray(np.asarray(self._frames[t], np.uint8))
        padded = ImageOps.pad(frame, inside, color=BACKGROUND)
        return np.asarray(ImageOps.expand(padded, margin, BACKGROUND))

    def _chart(self, t: int, goal: np.ndarray) -> np.ndarray:
        canvas = Canvas(self._size)
        canvas.frame()
        canvas.trail(list(self._achieved[: t + 1]))
        canvas.goal(goal, radius=0.03)
        canvas.agent(self._achieved[t])
        canvas.text(f"achieved_goal, components {' and '.join(map(str, self._axes))}", (0.5, 0.08), size=0.03)
        return canvas.pixels()


def _overlay(picture: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return a picture whose background shows another picture faintly; both are (H, W, 3) uint8."""
    empty = (picture == BACKGROUND).all(axis=-1, keepdims=True)
    mixed = np.round((1 - GHOST) * picture + GHOST * below).astype(np.uint8)
    return np.where(empty, mixed, picture)
