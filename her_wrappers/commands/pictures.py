"""Pictures of environments, and files that contain pictures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from her_wrappers.commands.terminal import CommandError


def picture_of(env: gym.Env[Any, Any]) -> np.ndarray:
    """Return a picture of an environment, (H, W, 3) uint8; end the command if it cannot be rendered."""
    try:
        picture = np.asarray(env.render())
    except NotImplementedError as error:
        raise CommandError(f"cannot draw {env}: it has no render()", 3) from error
    except Exception as error:
        if "mujoco" not in sys.modules:
            raise
        raise CommandError(
            f"cannot draw {env}: {type(error).__name__}: {error}; "
            "without a display, set the environment variable MUJOCO_GL=egl or MUJOCO_GL=osmesa for MuJoCo",
            3,
        ) from error
    if picture.ndim != 3:
        got = f"render() must return a (height, width, 3) array, got shape {picture.shape}"
        raise CommandError(f"cannot draw {env}: {got}", 3)
    return picture


def require_movie(path: Path) -> None:
    """Make the folder of a movie file; end the command if its format cannot be written."""
    if path.suffix.lower() not in {".gif", ".mp4"}:
        raise CommandError(f"--record must be a file that ends in .gif or .mp4, got {path}")
    packages = {"PIL": "pillow"}
    if path.suffix.lower() == ".mp4":
        packages |= {"imageio": "imageio", "av": "av"}
    if missing := " ".join(package for module, package in packages.items() if find_spec(module) is None):
        raise CommandError(f"writing {path} needs {missing}; run: pip install {missing}", 3)
    if path.is_dir():
        raise CommandError(f"cannot write {path}: it is a folder", 3)
    path.parent.mkdir(parents=True, exist_ok=True)


def write_gif(path: Path, pictures: Sequence[np.ndarray], milliseconds: list[int] | float) -> None:
    """Write (H, W, 3) uint8 pictures as a repeating GIF, with one duration for all or one for each."""
    from PIL import Image

    # One palette from pixels of all pictures, without dithering: parts that do not move stay equal.
    stride = int((len(pictures) / 8) ** 0.5) + 1
    samples = Image.fromarray(np.concatenate([each[::stride, ::stride] for each in pictures]))
    palette = samples.quantize(256, dither=Image.Dither.NONE)
    pages = [Image.fromarray(each).quantize(palette=palette, dither=Image.Dither.NONE) for each in pictures]
    pages[0].save(path, save_all=True, append_images=pages[1:], duration=milliseconds, loop=0)


def write_movie(path: Path, pictures: Sequence[np.ndarray], fps: int) -> None:
    """Write (H, W, 3) uint8 pictures as a movie; the suffix of the file must be .mp4 or .gif."""
    if path.suffix.lower() == ".gif":
        write_gif(path, pictures, 1000 / fps)
        return
    import imageio.v3 as imageio

    height, width = (size // 2 * 2 for size in pictures[0].shape[:2])  # H.264 needs even sizes
    imageio.imwrite(path, np.stack(pictures)[:, :height, :width], plugin="pyav", codec="libx264", fps=fps)
