"""Where the pictures of an episode go: into a window, or into a GIF."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import typer

from her_envs.canvas import Keys, Window
from her_wrappers.commands.terminal import fail

QUIT_KEYS = {"escape", "q"}


def picture_of(env: gym.Env[Any, Any]) -> np.ndarray:
    """Draw an environment, (H, W, 3) uint8; end the command if the environment cannot be drawn."""
    try:
        picture = np.asarray(env.render())
    except NotImplementedError:
        fail(f"cannot draw {env}: it has no render()")
    except Exception as error:
        if "mujoco" not in sys.modules:
            raise
        fail(
            f"cannot draw {env}: {type(error).__name__}: {error}; "
            "where there is no display, MuJoCo needs the environment variable MUJOCO_GL=egl, or osmesa"
        )
    if picture.ndim != 3:
        fail(f'{env} draws no pictures for render_mode="rgb_array"')
    return picture


class Quit(Exception):  # noqa: N818 - the player's wish, not an error
    """The player closes the window."""


class Screen:
    """The window, with the picture it shows and the line above it.

    Args:
        fps: Pictures shown a second.

    Attributes:
        hint: Instructions for the player after the caption.
    """

    def __init__(self, fps: int) -> None:
        try:
            self._window = Window()
        except RuntimeError as error:
            fail(f"{error}; --record out.gif needs no display")
        self._fps = fps
        self._picture = np.zeros((1, 1, 3), np.uint8)
        self._caption = ""
        self.hint = ""

    def show(self, picture: np.ndarray, caption: str) -> None:
        """Show a picture for the time of one frame."""
        self._picture, self._caption = picture, caption
        self.refresh()

    def refresh(self) -> None:
        """Show the same picture for one more frame."""
        caption = f"{self._caption} | {self.hint}" if self.hint else self._caption
        self._window.show(self._picture, caption, self._fps)

    def keys(self) -> Keys:
        """Look at the keyboard.

        Raises:
            Quit: The player wants to.
        """
        keys = self._window.keys()
        if keys.closed or QUIT_KEYS & set(keys.pressed):
            raise Quit
        return keys

    def close(self) -> None:
        """Close the window."""
        self._window.close()


class Film:
    """Pictures on their way into a GIF.

    Args:
        path: The file to write.
        fps: Pictures shown a second.

    Raises:
        typer.BadParameter: The file is not a GIF.
    """

    def __init__(self, path: Path, fps: int) -> None:
        if path.suffix.lower() != ".gif":
            raise typer.BadParameter(f"--record must be a file that ends in .gif, got {path}")
        require_writable(path)
        self._path = path
        self._fps = fps
        self._pictures: list[np.ndarray] = []

    def show(self, picture: np.ndarray, caption: str) -> None:
        """Keep a picture."""
        self._pictures.append(picture)

    def close(self) -> None:
        """Write the file, if there is a picture."""
        if not self._pictures:
            return
        try:
            import imageio.v3 as imageio  # noqa: PLC0415 - an extra
        except ImportError:
            fail('--record needs imageio and pillow; run: pip install "her-toolkit[render]"')
        # Not to the path: where that cannot be written, imageio prints a traceback when it is torn down.
        film: bytes = imageio.imwrite(
            "<bytes>", self._pictures, extension=".gif", duration=1000 / self._fps, loop=0
        )
        write_picture(self._path, film)
        typer.echo(f"{len(self._pictures)} pictures in {self._path}")


def write_picture(path: Path, content: bytes) -> None:
    """Write a file, and its folder."""
    require_writable(path)
    try:
        path.write_bytes(content)
    except OSError as error:
        fail(f"cannot write {path}: {error.strerror or error}")


def require_writable(path: Path) -> None:
    """Make the folder of a file; end the command if the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path if path.exists() else path.parent, os.W_OK) or path.is_dir():
            fail(f"cannot write {path}: permission denied, or it is a folder")
    except OSError as error:
        fail(f"cannot write {path}: {error.strerror or error}")
