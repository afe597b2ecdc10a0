"""Describe exceptions raised by the user's code: the message, and the file and line."""

from __future__ import annotations

import sysconfig
import traceback
from importlib.util import find_spec
from pathlib import Path

STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))

LIBRARIES = [  # folders in which `raised_at` does not look for a line of the user's code
    Path(folder)
    for name in ("her_wrappers", "her_envs", "her_agents", "gymnasium", "numpy", "tyro", "rich")
    if (spec := find_spec(name)) is not None
    for folder in spec.submodule_search_locations or ()
]


def describe(error: BaseException) -> str:
    """Return the type of an exception and the first line of its message, as in a traceback."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def raised_at(error: BaseException) -> str:
    """Return the place where an exception was raised, such as ``"raised in my_env.py, line 3"``.

    The place is the innermost frame outside the standard library and the folders in `LIBRARIES`. The result
    is empty if there is no such frame.
    """
    frames = [
        (Path(frame.f_code.co_filename), line) for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    user_frames = [(path, line) for path, line in frames if not is_library(path)]
    if not user_frames:
        return ""
    path, line = user_frames[-1]
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"raised in {shown}, line {line}"


def is_library(path: Path) -> bool:
    """Return whether a file is part of the standard library or lies in a folder of `LIBRARIES`."""
    is_standard = path.is_relative_to(STANDARD_LIBRARY) and "site-packages" not in path.parts
    return (
        is_standard
        or str(path).startswith("<frozen ")
        or any(path.is_relative_to(folder) for folder in LIBRARIES)
    )
