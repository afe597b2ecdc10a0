"""Describe exceptions raised by the user's code: the message, and the file and line."""

from __future__ import annotations

import sysconfig
import traceback
from importlib.util import find_spec
from pathlib import Path

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
    if not user_frames:
        return ""
    path, place = Path(user_frames[-1].filename), Path.cwd()
    shown = path.relative_to(place) if path.is_relative_to(place) else path
    return f"raised in {shown}, line {user_frames[-1].lineno}"


def describe_user_error(error: BaseException) -> str:
    """Return ``"ValueError: no contact; raised in my_env.py, line 3, in a call of step()"``, or ""."""
    place = raised_at(error)
    if not place:
        return ""
    outermost = _user_frames(error)[0].name
    call = "" if outermost.startswith("<") else f", in a call of {outermost}()"
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{describe(error)}; {place}{call}{notes}"


def _user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of a traceback that belong to the user's code, the innermost last."""
    frames = traceback.extract_tb(error.__traceback__)
    # The code of `__init__` of a dataclass, which Python generates, has the file name "<string>".
    generated = "<string>", "__init__"
    return [
        each
        for each in frames
        if not is_library(Path(each.filename)) and (each.filename, each.name) != generated
    ]


def is_library(path: Path) -> bool:
    """Return whether a file is part of the standard library or lies in a folder of `LIBRARIES`."""
    is_standard = path.is_relative_to(STANDARD_LIBRARY) and "site-packages" not in path.parts
    return (
        is_standard
        or str(path).startswith("<frozen ")
        or any(path.is_relative_to(folder) for folder in LIBRARIES)
    )
