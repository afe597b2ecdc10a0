"""Comparisons of values that environments return: exact, up to rounding, and by shared memory."""

from __future__ import annotations

import math
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.trees import Path, path_name

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPTH = 4
"""Attributes of attributes are looked at this far."""

RELATIVE, ABSOLUTE = 1e-5, 1e-6
"""Differences up to these are rounding: float32 observations of float64 states make up to 1e-7."""


def close(a: Any, b: Any) -> bool:
    """Whether two numbers or arrays are equal up to rounding; NaN equals NaN."""
    if isinstance(a, float) and isinstance(b, float):  # the common case, ten times faster than NumPy's
        return a == b or abs(a - b) <= ABSOLUTE + RELATIVE * abs(b) < math.inf or (a != a and b != b)  # noqa: PLR0124
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return False
    if a.dtype.hasobject or b.dtype.hasobject:
        return next(differences(a.tolist(), b.tolist(), close), None) is None
    if a.dtype.kind not in "fciub" or b.dtype.kind not in "fciub":
        return bool(np.array_equal(a, b))
    return bool(np.allclose(a, b, RELATIVE, ABSOLUTE, equal_nan=True))


def identical(a: Any, b: Any) -> bool:
    """Whether two values of any kind are the same to the last bit."""
    if not isinstance(a, np.ndarray):
        return next(differences(a, b, identical), None) is None
    if not (isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape):
        return False
    return identical(a.tolist(), b.tolist()) if a.dtype.hasobject else a.tobytes() == b.tobytes()


def first_difference(a: Any, b: Any) -> tuple[str, Any, Any] | None:
    """Name the first part of two trees that differs by more than rounding, and its two values."""
    found = next(differences(a, b, close), None)
    return locate(*found) if found else None


def locate(path: str, a: Any, b: Any) -> tuple[str, Any, Any]:
    """Narrow a difference of two arrays down to the first element that differs."""
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape == b.shape and a.ndim):
        return path, a, b
    index = next(i for i in np.ndindex(a.shape) if not close(a[i], b[i]))
    return f"{path}{list(index)}", a[index], b[index]


def differences(a: Any, b: Any, equal: Any, path: Path = ()) -> Iterator[tuple[str, Any, Any]]:
    """Yield the parts of two trees that differ: where, and both values.

    Args:
        a: A tree of dicts, lists, tuples and leaves.
        b: Another.
        equal: ``(array, array) -> bool``, for arrays and numbers.
        path: Path of the compared parts in their trees.
    """
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for key, part in a.items():
            yield from differences(part, b[key], equal, (*path, key))
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        for i, (part, other) in enumerate(zip(a, b, strict=True)):
            yield from differences(part, other, equal, (*path, i))
    elif not (a is b or _equal_leaves(a, b, equal)):
        yield path_name(path), a, b


def _equal_leaves(a: Any, b: Any, equal: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return _equal_arrays(a, b, equal)
    if isinstance(a, float | np.floating) and isinstance(b, float | np.floating):
        return close(a, b) if equal is close else bool(a == b or (a != a and b != b))  # noqa: PLR0124 - NaN
    if type(a) is type(b) and _is_compared_by_identity(a):
        return True  # such as a handle of a simulator: its copy, which is all that there is, never equals it
    try:
        return bool(a == b)
    except (TypeError, ValueError):
        return True  # values that cannot be compared cannot be shown to differ


def _is_compared_by_identity(value: Any) -> bool:
    return all("__eq__" not in vars(kind) for kind in type(value).__mro__[:-1])


def _equal_arrays(a: Any, b: Any, equal: Any) -> bool:
    try:
        return bool(equal(np.asarray(a), np.asarray(b)))
    except ValueError:  # of lists of unlike length, which make no array
        return False


def arrays_in(value: Any) -> list[tuple[str, np.ndarray]]:
    """Return the arrays inside containers and the attributes of objects, with their names."""
    return [(path_name(path), part) for path, part in _walk(value) if isinstance(part, np.ndarray)]


def owns_resources(value: Any) -> bool:
    """Whether an object, or one inside it, holds a resource such as a connection.

    A copy would release the resource of the original too.
    """
    return any(hasattr(type(part), "__del__") for _, part in _walk(value))


def _walk(value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield an object and what can be reached from it in a few steps, arrays once for each name."""
    todo: list[tuple[Path, Any]] = [((), value)]
    seen: set[int] = set()
    while todo:
        path, part = todo.pop(0)
        yield path, part
        if isinstance(part, np.ndarray | type | ModuleType) or len(path) > DEPTH or id(part) in seen:
            continue
        seen.add(id(part))
        todo += [((*path, key), child) for key, child in _parts(part)]


def _parts(value: Any) -> list[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list | tuple):
        return list(enumerate(value[:100]))
    return list(getattr(value, "__dict__", {}).items())


def share_memory(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether writing to one array can change the other; read-only arrays are safe to share."""
    if not (a.flags.writeable and b.flags.writeable) or not np.may_share_memory(a, b):
        return False
    return bool(np.shares_memory(a, b))


def type_name(value: Any) -> str:
    """Return the name of a value's type, such as ``numpy.bool``."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def show(value: Any, limit: int = 80) -> str:
    """Return a value as a short text on one line, for messages."""
    if isinstance(value, np.ndarray) and value.ndim:
        text = np.array2string(value, threshold=6, precision=6, separator=", ").replace("\n", "")
    elif isinstance(value, np.generic | np.ndarray):
        text = str(value.item())
    else:
        text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
