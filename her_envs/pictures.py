"""Painter: pictures of environments with the trails of their episodes, and a window to show them."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from her_envs.canvas import AGENT, OBJECT, Canvas, Window, require_pygame
from her_envs.task import GoalTask, State


class Painter:
    """Draws the environments of one task, with the trails of their episodes; needs pygame."""

    def __init__(self, task: GoalTask) -> None:
        require_pygame()
        self._task = task
        self._states: deque[State] = deque(maxlen=500)  # bounds the memory of long episodes
        self._window: Window | None = None

    def append(self, state: State, replace: bool = False) -> None:
        """Append the current state of all environments to the trails.

        After a reset of some environments, ``replace`` the last state: the others have not moved.
        """
        if replace and self._states:
            self._states.pop()
        self._states.append(state)

    def draw_picture(self, index: int, steps: int, size: int) -> np.ndarray:
        """Draw environment ``index`` at step ``steps`` of its episode; return (size, size, 3) uint8."""
        canvas = Canvas(size)
        episode = list(self._states)[-(steps + 1) :]
        places = [self._task.trail_points(state, index) for state in episode]
        for path, color in zip(zip(*places, strict=True), (AGENT, OBJECT), strict=False):
            canvas.trail(path, color)
        self._task.draw(canvas, episode[-1], index)
        return canvas.pixels()

    def show(self, picture: np.ndarray, caption: str, fps: int) -> None:
        """Show a picture, (H, W, 3) uint8, with `Window.show`; the first call opens the window."""
        if self._window is None:
            try:
                self._window = Window()
            except RuntimeError as error:
                fix = 'use render_mode="rgb_array", which needs no display'
                raise RuntimeError(f"{error}; {fix}") from error
        self._window.show(picture, caption, fps)

    def close(self) -> None:
        """Close the window, if it is open."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def __getstate__(self) -> dict[str, Any]:
        # A copy opens its own window.
        return self.__dict__ | {"_window": None}
