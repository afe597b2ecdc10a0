"""Two pictures of a recorded state: with the goal that the episode had, and with another one."""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_envs import TaskEnv
from her_envs.canvas import BACKGROUND, Canvas
from her_envs.pictures import Painter
from her_envs.task import State
from her_wrappers.commands.hindsight import Take

GHOST = 0.3
"""How much of the goal that the episode had is seen beside the new one."""


class Panels(Protocol):
    """Draws the states of one episode, (size, size, 3) uint8 each, whatever its goal.

    Attributes:
        goals_are_places: Whether several goals can be seen in one picture.
    """

    goals_are_places: bool

    def as_it_was(self, t: int) -> np.ndarray:
        """Draw state ``t`` with the goal that the episode had."""

    def in_hindsight(self, t: int, goal_state: int) -> np.ndarray:
        """Draw state ``t`` with the goal that another state achieved; a place leaves a trace where it was."""


def panels_of(env: gym.Env[Any, Any], take: Take, size: int) -> Panels:
    """Return what draws an episode: a bundled task anew, another environment's goals as places on a chart.

    Args:
        env: The environment that it is of.
        take: The episode.
        size: Side of each picture [pixels].

    Raises:
        ValueError: The goals are nothing that a chart could show.
    """
    if isinstance(env.unwrapped, TaskEnv):
        return TaskPanels(env.unwrapped, take, size)
    chart = ChartPanels(env.observation_space, take, size)
    return FramePanels(chart, take, size) if take.looks else chart


class TaskPanels:
    """Draws the recorded states of a bundled task, with any goal.

    Args:
        env: The environment.
        take: The episode.
        size: Side of each picture [pixels].
    """

    def __init__(self, env: TaskEnv, take: Take, size: int) -> None:
        self._task = env.task
        self._states = take.looks
        self._size = size
        self.goals_are_places = bool(self._task.trail_points(self._states[0], 0))

    def as_it_was(self, t: int) -> np.ndarray:
        """Draw a state as it was."""
        return self._draw(t, self._states[t]["goal"])

    def in_hindsight(self, t: int, goal_state: int) -> np.ndarray:
        """Draw a state with the goal that another one reached."""
        new = self._draw(t, self._goal_of(self._states[goal_state]))
        return overlay(new, self.as_it_was(t), GHOST) if self.goals_are_places else new

    def _goal_of(self, state: State) -> Any:
        """Return the goal that a state reached.

        Raises:
            ValueError: The agent would see another one.
        """
        goal = self._task.reached_goal(state)
        seen = self._task.observe(state | {"goal": goal})
        if not np.array_equal(seen["desired_goal"], seen["achieved_goal"]):
            raise ValueError(
                f"{type(self._task).__name__} shows goals in another form than its state has them; "
                "define its reached_goal(state)"
            )
        return goal

    def _draw(self, t: int, goal: Any) -> np.ndarray:
        painter = Painter(self._task)
        for state in self._states[: t + 1]:
            painter.append(state | {"goal": goal})
        return painter.draw_picture(0, t, self._size)


class ChartPanels:
    """Draws the way through the space of goals: its two components that vary most, in one scale.

    Args:
        observation_space: Of the environment.
        take: The episode.
        size: Side of each picture [pixels].

    Raises:
        ValueError: A goal is no row of numbers.
    """

    goals_are_places = True

    def __init__(self, observation_space: spaces.Space[Any], take: Take, size: int) -> None:
        goal_space = observation_space["achieved_goal"]  # type: ignore[index] # that of a goal environment
        if len(goal_space.shape or ()) != 1:
            raise ValueError(
                f"cannot chart goals of {goal_space}; expected a row of numbers, such as a place"
            )
        observations: Any = take.episode.observations
        places = [observations[key].astype(np.float64) for key in ("achieved_goal", "desired_goal")]
        self._axes = np.sort(np.argsort(-np.ptp(np.concatenate(places), axis=0), kind="stable")[:2])
        self._achieved, self._desired = _fit(places[0][:, self._axes], places[1][:, self._axes])
        self._size = size

    def as_it_was(self, t: int) -> np.ndarray:
        """Draw a state as it was."""
        return self._draw(t, self._desired[t])

    def in_hindsight(self, t: int, goal_state: int) -> np.ndarray:
        """Draw a state with the goal that another one reached."""
        return overlay(self._draw(t, self._achieved[goal_state]), self.as_it_was(t), GHOST)

    def _draw(self, t: int, goal: np.ndarray) -> np.ndarray:
        canvas = Canvas(self._size)
        canvas.frame()
        canvas.trail(list(self._achieved[: t + 1]))
        canvas.goal(goal, radius=0.03)
        canvas.agent(self._achieved[t])
        canvas.text(f"achieved_goal, components {' and '.join(map(str, self._axes))}", (0.5, 0.08), size=0.03)
        return canvas.pixels()


class FramePanels:
    """Shows what another environment rendered, beside the chart of its goals: it cannot be drawn again.

    Args:
        chart: Draws the goals of hindsight.
        take: The episode.
        size: Side of each picture [pixels].
    """

    goals_are_places = True

    def __init__(self, chart: ChartPanels, take: Take, size: int) -> None:
        self._chart = chart
        self._frames = take.looks
        self._size = size

    def as_it_was(self, t: int) -> np.ndarray:
        """Return the recorded picture, as large as fits where the chart has its frame."""
        from her_wrappers.commands.paper import fitted  # noqa: PLC0415 - needs pillow, an extra

        return fitted(np.asarray(self._frames[t], np.uint8), self._size, margin=self._size // 20)

    def in_hindsight(self, t: int, goal_state: int) -> np.ndarray:
        """Draw the way through the space of goals."""
        return self._chart.in_hindsight(t, goal_state)


def overlay(picture: np.ndarray, below: np.ndarray, share: float) -> np.ndarray:
    """Let what is below shine through where a picture is empty.

    Args:
        picture: (H, W, 3) uint8.
        below: Another one of the same size.
        share: How much of it is seen.
    """
    empty = (picture == BACKGROUND).all(axis=-1, keepdims=True)
    mixed = np.round((1 - share) * picture + share * below).astype(np.uint8)
    return np.where(empty, mixed, picture)


def _fit(achieved: np.ndarray, desired: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale places of one or two components into the unit square, alike along both."""
    both = np.concatenate([achieved, desired])
    middle, extent = (both.max(axis=0) + both.min(axis=0)) / 2, max(np.ptp(both, axis=0).max(), 1e-9)

    def place(points: np.ndarray) -> np.ndarray:
        scaled = 0.5 + 0.7 * (points - middle) / extent
        return np.pad(scaled, ((0, 0), (0, 2 - scaled.shape[1])), constant_values=0.5)

    return place(achieved), place(desired)
