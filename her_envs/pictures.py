"""Pictures of episodes: the present state with the trail behind it, and the window that shows them."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from her_envs.canvas import AGENT, OBJECT, Canvas, Window, require_pygame
from her_envs.task import GoalTask, State

MAX_TRAIL = 500
"""States that a trail goes back at most, so that an episode without end keeps a bounded memory."""


class Painter:
    """Draws the environments of one task, and remembers where they came from.

    Args:
        task: What to draw.

    Raises:
        gymnasium.error.DependencyNotInstalled: pygame is missing.
    """

    def __init__(self, task: GoalTask) -> None:
        require_pygame()
        self._task = task
        self._states: deque[State] = deque(maxlen=MAX_TRAIL)
        self._window: Window | None = None

    def follow(self, state: State) -> None:
        """Take the next state of all environments."""
        self._states.append(state)

    def replace(self, state: State) -> None:
        """Take ``state`` in the place of the last one: some environments were reset."""
        if self._states:
            self._states.pop()
        self._states.append(state)

    def picture(self, index: int, steps: int, size: int) -> np.ndarray:
        """Draw one environment, (size, size, 3) uint8.

        Args:
            index: Which environment of the states.
            steps: How many steps it is into its episode.
            size: Side of the picture [pixels].
        """
        canvas = Canvas(size)
        episode = list(self._states)[-(steps + 1) :]
        places = [self._task.trail_points(state, index) for state in episode]
        for path, colour in zip(zip(*places, strict=True), (AGENT, OBJECT), strict=False):
            canvas.trail(path, colour)
        self._task.draw(canvas, episode[-1], index)
        return canvas.pixels()

    def show(self, picture: np.ndarray, caption: str, fps: int) -> None:
        """Show a picture in the window, which opens when it is first needed."""
        if self._window is None:
            self._window = Window()
        self._window.show(picture, caption, fps)

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def __getstate__(self) -> dict[str, Any]:
        # A copy opens a window of its own.
        return self.__dict__ | {"_window": None}


def mosaic_columns(count: int) -> int:
    """Return how many pictures a `mosaic` of ``count`` has side by side."""
    return math.isqrt(count - 1) + 1


def mosaic(pictures: list[np.ndarray]) -> np.ndarray:
    """Put square pictures of one size side by side, in a grid as square as possible.

    Args:
        pictures: (size, size, 3) uint8 each, at least one.

    Returns:
        (H, W, 3) uint8, in reading order; what is left over is white.
    """
    columns = mosaic_columns(len(pictures))
    rows = -(-len(pictures) // columns)
    cells = np.full((rows * columns, *pictures[0].shape), 255, np.uint8)
    cells[: len(pictures)] = pictures
    height, width, colours = pictures[0].shape
    grid = cells.reshape(rows, columns, height, width, colours).swapaxes(1, 2)
    return grid.reshape(rows * height, columns * width, colours)
