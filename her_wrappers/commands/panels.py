"""Pictures of a recorded state, with the episode's own goal and with another goal."""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_envs import TaskEnv
from her_envs.canvas import BACKGROUND, Canvas
from her_envs.pictures import Painter
from her_envs.task import State
from her_wrappers.commands.hindsight import RenderedEpisode

GHOST = 0.3
"""Opacity of the episode's own goal in the picture with the new goal."""


class Panels(Protocol):
    """Draws pictures of the states of one episode, (size, size, 3) uint8.

    Attributes:
        goals_are_places: Whether goals are positions in the picture, so that one picture can show several.
    """

    goals_are_places: bool

    def with_own_goal(self, t: int) -> np.ndarray:
        """Draw state ``t`` with the episode's own goal."""

    def with_goal_of(self, t: int, goal_state: int) -> np.ndarray:
        """Draw state ``t`` with the goal that state ``goal_state`` achieved.

        If ``goals_are_places`` is True, the episode's own goal is drawn faintly too.
        """


def panels_of(env: gym.Env[Any, Any], rendered: RenderedEpisode, size: int) -> Panels:
    """Return the panels of an episode: drawings of a bundled task, or else rendered pictures and a chart.

    Args:
        env: The environment of the episode.
        rendered: The episode.
        size: Side of each picture [pixels].

    Raises:
        ValueError: The goals are not vectors, so a chart cannot show them.
    """
    if isinstance(env.unwrapped, TaskEnv):
        return TaskPanels(env.unwrapped, rendered, size)
    chart = ChartPanels(env.observation_space, rendered, size)
    return FramePanels(chart, rendered, size) if rendered.frames else chart


class TaskPanels:
    """Draws the states of a bundled task, with any goal.

    Args:
        env: The environment.
        rendered: The episode.
        size: Side of each picture [pixels].
    """

    def __init__(self, env: TaskEnv, rendered: RenderedEpisode, size: int) -> None:
        self._task = env.task
        self._states = rendered.frames
        self._size = size
        self.goals_are_places = bool(self._task.trail_points(self._states[0], 0))

    def with_own_goal(self, t: int) -> np.ndarray:
        """Draw a state with the episode's own goal."""
        return self._draw(t, self._states[t]["goal"])

    def with_goal_of(self, t: int, goal_state: int) -> np.ndarray:
        """Draw a state with the goal that another state achieved."""
        new = self._draw(t, self._goal_of(self._states[goal_state]))
        return overlay(new, self.with_own_goal(t), GHOST) if self.goals_are_places else new

    def _goal_of(self, state: State) -> Any:
        # Returns the goal that a state achieved.
        goal = self._task.reached_goal(state)
        seen = self._task.observe(state | {"goal": goal})
        if not np.array_equal(seen["desired_goal"], seen["achieved_goal"]):
            raise ValueError(
                f"reached_goal(state) of {type(self._task).__name__} must return a goal for which observe() "
                f"returns a desired_goal equal to achieved_goal, got {seen['desired_goal']} and "
                f"{seen['achieved_goal']}"
            )
        return goal

    def _draw(self, t: int, goal: Any) -> np.ndarray:
        painter = Painter(self._task)
        for state in self._states[: t + 1]:
            painter.append(state | {"goal": goal})
        return painter.draw_picture(0, t, self._size)


class ChartPanels:
    """Draws the path of the achieved goal: the two components that vary most, with one scale for both axes.

    Args:
        observation_space: Observation space of the environment.
        rendered: The episode.
        size: Side of each picture [pixels].

    Raises:
        ValueError: The goals are not vectors.
    """

    goals_are_places = True

    def __init__(self, observation_space: spaces.Space[Any], rendered: RenderedEpisode, size: int) -> None:
        goal_space = observation_space["achieved_goal"]  # type: ignore[index] # that of a goal environment
        if len(goal_space.shape or ()) != 1:
            raise ValueError(
                f"a chart needs goals that are vectors, from a space of shape (G,), got {goal_space}"
            )
        observations: Any = rendered.episode.observations
        places = [observations[key].astype(np.float64) for key in ("achieved_goal", "desired_goal")]
        self._axes = np.sort(np.argsort(-np.ptp(np.concatenate(places), axis=0), kind="stable")[:2])
        self._achieved, self._desired = _fit(places[0][:, self._axes], places[1][:, self._axes])
        self._size = size

    def with_own_goal(self, t: int) -> np.ndarray:
        """Draw a state with the episode's own goal."""
        return self._draw(t, self._desired[t])

    def with_goal_of(self, t: int, goal_state: int) -> np.ndarray:
        """Draw a state with the goal that another state achieved."""
        return overlay(self._draw(t, self._achieved[goal_state]), self.with_own_goal(t), GHOST)

    def _draw(self, t: int, goal: np.ndarray) -> np.ndarray:
        canvas = Canvas(self._size)
        canvas.frame()
        canvas.trail(list(self._achieved[: t + 1]))
        canvas.goal(goal, radius=0.03)
        canvas.agent(self._achieved[t])
        canvas.text(f"achieved_goal, components {' and '.join(map(str, self._axes))}", (0.5, 0.08), size=0.03)
        return canvas.pixels()


class FramePanels:
    """Shows the pictures that an environment rendered, and a chart for the new goal.

    Args:
        chart: Draws the chart.
        rendered: The episode.
        size: Side of each picture [pixels].
    """

    goals_are_places = True

    def __init__(self, chart: ChartPanels, rendered: RenderedEpisode, size: int) -> None:
        self._chart = chart
        self._frames = rendered.frames
        self._size = size

    def with_own_goal(self, t: int) -> np.ndarray:
        """Return the rendered picture of a state, scaled to the frame of the chart."""
        from her_wrappers.commands.paper import fitted  # noqa: PLC0415 - needs pillow, an extra

        return fitted(np.asarray(self._frames[t], np.uint8), self._size, margin=self._size // 20)

    def with_goal_of(self, t: int, goal_state: int) -> np.ndarray:
        """Draw the chart with the goal that another state achieved."""
        return self._chart.with_goal_of(t, goal_state)


def overlay(picture: np.ndarray, below: np.ndarray, share: float) -> np.ndarray:
    """Return a picture whose background is blended with another picture.

    Args:
        picture: (H, W, 3) uint8.
        below: (H, W, 3) uint8, the other picture.
        share: Opacity of ``below``, in 0..1.
    """
    empty = (picture == BACKGROUND).all(axis=-1, keepdims=True)
    mixed = np.round((1 - share) * picture + share * below).astype(np.uint8)
    return np.where(empty, mixed, picture)


def _fit(achieved: np.ndarray, desired: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale places of one or two components into the unit square, with one scale for both axes."""
    both = np.concatenate([achieved, desired])
    middle, extent = (both.max(axis=0) + both.min(axis=0)) / 2, max(np.ptp(both, axis=0).max(), 1e-9)

    def place(points: np.ndarray) -> np.ndarray:
        scaled = 0.5 + 0.7 * (points - middle) / extent
        return np.pad(scaled, ((0, 0), (0, 2 - scaled.shape[1])), constant_values=0.5)

    return place(achieved), place(desired)
