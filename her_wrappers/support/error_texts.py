"""Describe exceptions raised by the user's code: the message, and the file and line."""

from __future__ import annotations

import sysconfig
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))

LIBRARIES = [  # folders in which `raised_at` does not look for a line of the user's code
    Path(folder)
    for name in ("her_wrappers", "her_envs", "her_agents", "gymnasium", "numpy", "torch", "tyro", "rich")
    if (spec := find_spec(name)) is not None
    for folder in spec.submodule_search_locations or ()
]


def describe(error: BaseException) -> str:
    """Return the type of an exception and the first line of its message, as in a traceback."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def raised_at(error: BaseException) -> str:
    """Return the innermost frame of the user's code, as ``"raised in my_env.py, line 3"``, or ""."""
    user_frames = _user_frames(error)
    return f"raised in {user_frames[-1]}" if user_frames else ""


def describe_user_error(error: BaseException) -> str:
    """Return ``"ValueError: no contact; raised in my_env.py, line 3, in a call of step()"``, or ""."""
    user_frames = _user_frames(error)
    if not user_frames:
        return ""
    outermost = user_frames[0].function
    call = "" if outermost.startswith("<") else f", in a call of {outermost}()"
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{describe(error)}; raised in {user_frames[-1]}{call}{notes}"


class _Frame(NamedTuple):
    path: Path
    line: int
    function: str

    def __str__(self) -> str:
        shown = self.path.relative_to(Path.cwd()) if self.path.is_relative_to(Path.cwd()) else self.path
        return f"{shown}, line {self.line}"


def _user_frames(error: BaseException) -> list[_Frame]:
    """Return the frames of a traceback that belong to the user's code, the innermost last."""
    frames = [
        _Frame(Path(frame.f_code.co_filename), line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    # The code of `__init__` of a dataclass, which Python generates, has the file name "<string>".
    generated = Path("<string>"), "__init__"
    return [each for each in frames if not is_library(each.path) and (each.path, each.function) != generated]


def is_library(path: Path) -> bool:
    """Return whether a file is part of the standard library or lies in a folder of `LIBRARIES`."""
    is_standard = path.is_relative_to(STANDARD_LIBRARY) and "site-packages" not in path.parts
    return (
        is_standard
        or str(path).startswith("<frozen ")
        or any(path.is_relative_to(folder) for folder in LIBRARIES)
    )
