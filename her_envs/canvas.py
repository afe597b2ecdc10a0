"""Canvas and Window: drawing with pygame. No other module imports pygame.

The coordinates and lengths of a `Canvas` do not depend on its size: (0, 0) is the lower left corner of the
unit square, (1, 1) the upper right corner. The unit square fills the picture except for a margin of 5 % on
each side. Only in `Canvas.bits`, `Canvas.bar` and `Canvas.text`, (0, 0) and (1, 1) are corners of the whole
picture. Drawing needs no display. This module never calls ``pygame.quit()``, which would close the windows of
other environments.

The colors are the palette of Okabe and Ito, which color-blind people can distinguish:
https://jfly.uni-koeln.de/color/
"""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from gymnasium.error import DependencyNotInstalled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

Point: TypeAlias = Any
"""Two numbers, x and y, as a sequence or an array."""

BACKGROUND = (250, 250, 248)
INK = (40, 40, 40)
FAINT = (205, 205, 200)
WALL = (120, 120, 118)
AGENT = (0, 114, 178)
GOAL = (213, 94, 0)
REACHED = (0, 158, 115)
OBJECT = (204, 121, 167)
MARKED = (230, 159, 0)

MARGIN = 0.05
"""Width of the margin around the unit square, so that an agent at its border is completely visible."""

INSTALL = 'pip install "her-toolkit[render]"'


def require_pygame() -> ModuleType:
    """Import pygame, from the package pygame-ce or the package pygame, and return the module.

    Raises:
        gymnasium.error.DependencyNotInstalled: pygame is missing or damaged.
    """
    with contextlib.suppress(ImportError):
        pygame = importlib.import_module("pygame")
        if hasattr(pygame, "Surface"):  # an uninstalled pygame can leave an empty folder
            return pygame
    # Both packages own the folder pygame/, and uninstalling one removes files of the other.
    raise DependencyNotInstalled(
        f"rendering needs pygame; run: {INSTALL}; if pygame is installed, its files are damaged: first run "
        "`pip uninstall --yes pygame pygame-ce`"
    )


class Canvas:
    """A square picture of ``size`` x ``size`` pixels to draw on."""

    def __init__(self, size: int) -> None:
        self._pygame = require_pygame()
        # The surface has twice the size; scaling it down smooths all edges.
        self._size = 2 * size
        self._surface = self._pygame.Surface((self._size, self._size), depth=32)
        self._surface.fill(BACKGROUND)

    def pixels(self) -> np.ndarray:
        """Return the picture, (size, size, 3) uint8, row 0 at the top."""
        half = self._size // 2
        scaled = self._pygame.transform.smoothscale(self._surface, (half, half))
        return np.ascontiguousarray(self._pygame.surfarray.array3d(scaled).swapaxes(0, 1))

    def frame(self, inset: float = 0.0) -> None:
        """Draw the border of the unit square, or of the square inside it at the distance ``inset``."""
        left, top = self._inside((inset, 1 - inset))
        right, bottom = self._inside((1 - inset, inset))
        rectangle = self._pygame.Rect(left, top, right - left + 1, bottom - top + 1)
        self._pygame.draw.rect(self._surface, FAINT if inset else INK, rectangle, self._width(0.006))

    def wall(self, corner: Point, side: float) -> None:
        """Fill a square with this ``side`` and this lower left ``corner``."""
        left, bottom = self._inside(corner)
        right, top = self._inside([c + side for c in corner])
        self._pygame.draw.rect(self._surface, WALL, (left, top, right - left + 1, bottom - top + 1))

    def agent(self, position: Point, reached: bool = False, radius: float = 0.02) -> None:
        """Draw the agent as a disc around ``position``, with a bright middle if its goal is ``reached``."""
        self._disc(position, radius, AGENT, reached)

    def puck(self, position: Point, radius: float, reached: bool = False) -> None:
        """Draw a disc for an object that the agent pushes, as `agent` draws the agent."""
        self._disc(position, radius, OBJECT, reached)

    def _disc(self, position: Point, radius: float, color: tuple[int, int, int], reached: bool) -> None:
        center, pixels = self._inside(position), max(2, self._length(radius))
        self._pygame.draw.circle(self._surface, REACHED if reached else color, center, pixels)
        if reached:
            self._pygame.draw.circle(self._surface, BACKGROUND, center, max(1, pixels // 2))

    def trail(self, path: Sequence[Point], colour: tuple[int, int, int] = AGENT) -> None:
        """Draw a path, positions in order of time, in a lighter tint of ``colour``, that of what moved."""
        tint = tuple((value + paper) // 2 for value, paper in zip(colour, BACKGROUND, strict=True))
        pixels = [self._inside(place) for place in path]
        if len(pixels) > 1:
            self._pygame.draw.lines(self._surface, tint, False, pixels, self._width(0.006))
        for pixel in pixels:
            self._pygame.draw.circle(self._surface, tint, pixel, self._width(0.006))

    def goal(self, position: Point, radius: float) -> None:
        """Draw the goal as a cross in a ring; ``radius`` is the largest distance from a reached goal."""
        x, y = self._inside(position)
        draw, arm = self._pygame.draw, self._width(0.014)
        draw.circle(self._surface, GOAL, (x, y), max(2, self._length(radius)), self._width(0.007))
        draw.line(self._surface, GOAL, (x - arm, y), (x + arm, y), self._width(0.007))
        draw.line(self._surface, GOAL, (x, y - arm), (x, y + arm), self._width(0.007))

    def bits(
        self, bits: np.ndarray, box: tuple[float, float, float, float], marked: Iterable[bool] = ()
    ) -> None:
        """Draw bits as a grid of labeled squares, in reading order.

        Args:
            bits: (n,) bits, 0 or 1.
            box: Left, bottom, right and top of the grid.
            marked: (n,) bool, whether each square gets a colored border; empty for no borders.
        """
        left, top = self._pixel((box[0], box[3]))
        right, bottom = self._pixel((box[2], box[1]))
        width, height = right - left, bottom - top
        sides = [min(width // n, height // -(-len(bits) // n)) for n in range(1, len(bits) + 1)]
        columns, cell = 1 + sides.index(max(sides)), max(1, *sides)  # the largest square cells that fit
        left += (width - columns * cell) // 2
        font, marks = self._font(0.62 * cell), list(marked)
        for i, bit in enumerate(bits):
            x, y = left + i % columns * cell, top + i // columns * cell
            square = self._pygame.Rect(x, y, cell, cell).inflate(-cell // 10 - 1, -cell // 10 - 1)
            self._pygame.draw.rect(self._surface, AGENT if bit else FAINT, square)
            if marks and marks[i]:
                self._pygame.draw.rect(self._surface, MARKED, square, max(2, cell // 9))
            label = font.render(str(int(bit)), True, BACKGROUND if bit else INK)
            self._surface.blit(label, label.get_rect(center=square.center))

    def bar(self, share: float, mark: float) -> None:
        """Draw a bar that is filled up to ``share``, with a line at ``mark``; both are in [0, 1]."""
        left, top = self._pixel((0.1, 0.45))
        right, bottom = self._pixel((0.9, 0.3))
        draw, height = self._pygame.draw, bottom - top
        filled, x = (round(min(float(part), 1.0) * (right - left)) for part in (share, mark))
        draw.rect(self._surface, FAINT, (left, top, right - left, height))
        draw.rect(self._surface, AGENT, (left, top, filled, height))
        x += left
        draw.line(self._surface, GOAL, (x, top - height // 4), (x, bottom + height // 4), self._width(0.01))

    def text(self, text: str, centre: Point, size: float = 0.06) -> None:
        """Write a line of text with height ``size``, centered at ``centre``."""
        label = self._font(size * self._size).render(text, True, INK)
        self._surface.blit(label, label.get_rect(center=self._pixel(centre)))

    def _font(self, pixels: float) -> Any:
        self._pygame.font.init()
        return self._pygame.font.Font(None, max(16, round(1.3 * pixels)))

    def _width(self, share: float) -> int:
        return max(1, round(share * self._size))

    def _length(self, inside: float) -> int:
        return round(inside * self._size * (1 - 2 * MARGIN))

    def _pixel(self, point: Point) -> tuple[int, int]:
        x, y = (float(c) * (self._size - 1) for c in point)
        return round(x), round(self._size - 1 - y)

    def _inside(self, point: Point) -> tuple[int, int]:
        return self._pixel([MARGIN + (1 - 2 * MARGIN) * float(c) for c in point])


class Window:
    """The window of ``human`` mode. pygame supports one window, which all environments of a process share.

    Raises:
        gymnasium.error.DependencyNotInstalled: pygame is missing or damaged.
        RuntimeError: No display is available.
    """

    def __init__(self) -> None:
        self._pygame = require_pygame()
        platforms = {os.environ.get(name, "").strip().lower() for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
        if "egl" in platforms:  # X11 kills a process that uses GLX and EGL
            os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
        problem = ""
        try:
            self._pygame.display.init()
            driver = self._pygame.display.get_driver()
            named = ",".join(os.environ.get(name, "") for name in ("SDL_VIDEODRIVER", "SDL_VIDEO_DRIVER"))
            # SDL chooses such a driver if there is no display. A user can name it to open a window in memory.
            if driver in {"offscreen", "dummy"} and driver not in named.lower().split(","):
                problem = f"no display is available, and SDL chose the driver {driver!r}, which shows nothing"
                self._pygame.display.quit()
        except self._pygame.error as error:
            problem = str(error)
        if problem:
            raise RuntimeError(
                f"cannot open a window: {problem}; without a display, use --record out.gif of `her watch`, "
                'or render_mode="rgb_array"'
            )
        self._clock = self._pygame.time.Clock()

    def show(self, picture: np.ndarray, caption: str, fps: int) -> None:
        """Show a picture, (H, W, 3) uint8, with a title, then wait to limit the rate to ``fps``."""
        display = self._pygame.display
        surface = self._pygame.surfarray.make_surface(picture.swapaxes(0, 1))
        screen = display.get_surface()
        if screen is None or screen.get_size() != surface.get_size():
            screen = display.set_mode(surface.get_size())
        display.set_caption(caption)
        screen.blit(surface, (0, 0))
        self._pygame.event.pump()
        display.flip()
        self._clock.tick(fps)

    def pressed_keys(self) -> set[str]:
        """Return pygame's names of the keys that were pressed since the last call, such as ``"left"``.

        Closing the window counts as ``"escape"``.
        """
        pygame = self._pygame
        events = pygame.event.get((pygame.KEYDOWN, pygame.QUIT))
        return {"escape" if each.type == pygame.QUIT else pygame.key.name(each.key) for each in events}

    def close(self) -> None:
        """Close the window; the next picture of another environment opens it again."""
        self._pygame.display.quit()
