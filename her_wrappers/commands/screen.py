"""Output of the pictures of an episode: a window, or a GIF."""

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
    """Return a picture of an environment, (H, W, 3) uint8; end the command if it has none."""
    try:
        picture = np.asarray(env.render())
    except NotImplementedError:
        fail(f"cannot draw {env}: it has no render()")
    except Exception as error:
        if "mujoco" not in sys.modules:
            raise
        fail(
            f"cannot draw {env}: {type(error).__name__}: {error}; "
            "without a display MuJoCo needs the environment variable MUJOCO_GL=egl or MUJOCO_GL=osmesa"
        )
    if picture.ndim != 3:
        fail(f"cannot draw {env}: render() must return a picture (H, W, 3), got shape {picture.shape}")
    return picture


class Quit(Exception):  # noqa: N818 - not an error
    """The player closed the window, or pressed escape or q."""


class Screen:
    """A window with a picture and a caption.

    Args:
        fps: Pictures per second.

    Attributes:
        hint: Text for the player after the caption.
    """

    def __init__(self, fps: int) -> None:
        try:
            self._window = Window()
        except RuntimeError as error:
            fail(f"{error}; --record out.gif works without a display")
        self._fps = fps
        self._picture = np.zeros((1, 1, 3), np.uint8)
        self._caption = ""
        self.hint = ""

    def show(self, picture: np.ndarray, caption: str) -> None:
        """Show a picture for the duration of one frame."""
        self._picture, self._caption = picture, caption
        self.refresh()

    def refresh(self) -> None:
        """Show the same picture for one more frame."""
        caption = f"{self._caption} | {self.hint}" if self.hint else self._caption
        self._window.show(self._picture, caption, self._fps)

    def keys(self) -> Keys:
        """Return the keys that are pressed and held.

        Raises:
            Quit: The player closed the window, or pressed escape or q.
        """
        keys = self._window.keys()
        if keys.closed or QUIT_KEYS & set(keys.pressed):
            raise Quit
        return keys

    def close(self) -> None:
        """Close the window."""
        self._window.close()


class Film:
    """Collects pictures, and writes them as a GIF.

    Args:
        path: The file to write.
        fps: Pictures per second.

    Raises:
        typer.BadParameter: The name of the file does not end in .gif.
        typer.Exit: The file cannot be written.
    """

    def __init__(self, path: Path, fps: int) -> None:
        if path.suffix.lower() != ".gif":
            raise typer.BadParameter(f"--record must be a file that ends in .gif, got {path}")
        require_writable(path)
        self._path = path
        self._fps = fps
        self._pictures: list[np.ndarray] = []

    def show(self, picture: np.ndarray, caption: str) -> None:
        """Add a picture; a GIF does not show the caption."""
        self._pictures.append(picture)

    def close(self) -> None:
        """Write the file if there is a picture."""
        if not self._pictures:
            return
        try:
            import imageio.v3 as imageio  # noqa: PLC0415 - an extra
        except ImportError:
            fail('--record needs imageio and pillow; run: pip install "her-toolkit[render]"')
        # imageio writes to memory: if it cannot write to a path, it prints a traceback when Python exits.
        gif: bytes = imageio.imwrite(
            "<bytes>", self._pictures, extension=".gif", duration=1000 / self._fps, loop=0
        )
        write_picture(self._path, gif)
        typer.echo(f"{len(self._pictures)} pictures in {self._path}")


def write_picture(path: Path, content: bytes) -> None:
    """Write a file, and make its folder if necessary; end the command if the file cannot be written."""
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
            fail(f"cannot write {path}: it is a folder, or permission was denied")
    except OSError as error:
        fail(f"cannot write {path}: {error.strerror or error}")
