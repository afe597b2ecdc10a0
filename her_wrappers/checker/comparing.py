"""Comparison of values that environments return: exact equality, equality up to rounding, shared memory."""

from __future__ import annotations

import math
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.data.trees import Path, path_name, try_as_array, tuple_like

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 4  # depth up to which the items of containers and the attributes of objects are searched
RELATIVE, ABSOLUTE = 1e-5, 1e-6  # tolerances of `close`; casts to float32 have errors of up to 1e-7


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
    """Whether two nested values are equal; arrays need equal dtypes, shapes and bytes, and NaN equals NaN."""
    if not isinstance(a, np.ndarray):
        return next(differences(a, b, identical), None) is None
    if not (isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape):
        return False
    return identical(a.tolist(), b.tolist()) if a.dtype.hasobject else a.tobytes() == b.tobytes()


def first_difference(a: Any, b: Any) -> tuple[str, Any, Any] | None:
    """Return (path, value in ``a``, value in ``b``) of the first difference larger than rounding, or None."""
    for path, value, other in differences(a, b, close):
        are_arrays = isinstance(value, np.ndarray) and isinstance(other, np.ndarray)
        if not (are_arrays and value.shape == other.shape and value.ndim):
            return path, value, other
        index = next(i for i in np.ndindex(value.shape) if not close(value[i], other[i]))
        return f"{path}{list(index)}", value[index], other[index]
    return None


def differences(a: Any, b: Any, equal: Any, path: Path = ()) -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, value, other) of each difference; ``equal`` compares arrays, `close` floats as well."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for key, value in a.items():
            yield from differences(value, b[key], equal, (*path, key))
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        for i, (value, other) in enumerate(zip(a, b, strict=True)):
            yield from differences(value, other, equal, (*path, i))
    elif not (a is b or _equal_leaves(a, b, equal)):
        yield path_name(path), a, b


def _equal_leaves(a: Any, b: Any, equal: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        try:
            return bool(equal(np.asarray(a), np.asarray(b)))
        except ValueError:  # lists of unequal length are not arrays
            return False
    if isinstance(a, float | np.floating) and isinstance(b, float | np.floating):
        return close(a, b) if equal is close else bool(a == b or (a != a and b != b))  # noqa: PLR0124 - NaN
    if type(a) is type(b) and all("__eq__" not in vars(kind) for kind in type(a).__mro__[:-1]):
        return True  # a copy of such an object, as of a handle of a simulator, never equals the original
    try:
        return bool(a == b)
    except (TypeError, ValueError):
        return True  # without a comparison, a difference cannot be shown


def to_arrays(value: Any) -> Any:
    """Return a value with arrays in place of tensors; a container without tensors is returned as it is."""
    if isinstance(value, dict):
        parts = {key: to_arrays(part) for key, part in value.items()}
        return value if all(parts[key] is part for key, part in value.items()) else parts
    if isinstance(value, list | tuple):
        items = [to_arrays(part) for part in value]
        if all(item is part for item, part in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else tuple_like(value, items)
    is_tensor = hasattr(type(value), "__array__") and not isinstance(value, np.ndarray | np.generic)
    return try_as_array(value) if is_tensor else value


def arrays_in(value: Any) -> list[tuple[str, np.ndarray]]:
    """Return (path, array) for each array in items or attributes of a value; a path is like ``task/goal``."""
    return [(path_name(path), child) for path, child in _walk(value) if isinstance(child, np.ndarray)]


def owns_resources(value: Any) -> bool:
    """Whether a value or a part of it has ``__del__``, so that its copy would release the same resource."""
    return any(hasattr(type(child), "__del__") for _, child in _walk(value))


def _walk(value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield (path, object) for a value, and for its items and attributes down to `MAX_DEPTH`."""
    todo: list[tuple[Path, Any]] = [((), value)]
    visited: set[int] = set()
    while todo:
        path, node = todo.pop(0)
        yield path, node
        if isinstance(node, np.ndarray | type | ModuleType) or len(path) > MAX_DEPTH or id(node) in visited:
            continue
        visited.add(id(node))
        children = dict(enumerate(node[:100])) if isinstance(node, list | tuple) else node
        if not isinstance(children, dict):
            children = getattr(node, "__dict__", {})
        todo += [((*path, key), child) for key, child in children.items()]


def share_memory(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether both arrays are writeable and share memory."""
    return bool(a.flags.writeable and b.flags.writeable and np.shares_memory(a, b))


def type_name(value: Any) -> str:
    """Return the qualified name of the type of a value, such as ``numpy.bool``."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def show(value: Any, limit: int = 80) -> str:
    """Return a value as a text of at most ``limit`` characters, for messages."""
    if isinstance(value, np.ndarray) and value.ndim:
        text = np.array2string(value, threshold=6, precision=6, separator=", ").replace("\n", "")
    elif isinstance(value, np.generic | np.ndarray):
        text = str(value.item())
    else:
        text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
