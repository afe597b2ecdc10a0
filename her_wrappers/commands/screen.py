"""Pictures of environments, and files of pictures."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from her_wrappers.commands.terminal import fail


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


def gif_of(pictures: list[np.ndarray], fps: int) -> bytes:
    """Return pictures as an animated GIF; end the command if a package is missing."""
    try:
        import imageio.v3 as imageio
    except ImportError:
        fail('--record needs imageio and pillow; run: pip install "her-toolkit[render]"')
    # imageio writes to memory: if it cannot write to a path, it prints a traceback when Python exits.
    gif: bytes = imageio.imwrite("<bytes>", pictures, extension=".gif", duration=1000 / fps, loop=0)
    return gif


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
