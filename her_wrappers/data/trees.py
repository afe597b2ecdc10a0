"""Trees: nested dicts and tuples of leaves, mostly arrays; a path has the keys that lead to a leaf."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Path: TypeAlias = tuple[str | int, ...]
Tree: TypeAlias = Any
"""An array, or a dict or tuple of trees."""

NUMBERS = "biuf"  # values of ``dtype.kind`` that count as numbers: bools, integers, floats

FLOAT32_OVERFLOW = 2.0**128 - 2.0**103  # the smallest number that becomes infinite as float32

STRINGS = "US"  # values of ``dtype.kind`` that count as strings


def path_name(path: Path) -> str:
    """Return the text of a path in messages and field names, such as ``observation/camera``."""
    return "/".join(map(str, path))


def leaves_by_path(tree: Tree, path: Path = ()) -> dict[Path, Any]:
    """Return a dict from path to leaf, in the order of the tree; ``path`` is the path of ``tree`` itself."""
    if not isinstance(tree, dict | tuple):
        return {path: tree}
    parts = (leaves_by_path(tree[key], (*path, key)) for key in _keys(tree))
    return {place: leaf for leaves in parts for place, leaf in leaves.items()}


def map_tree(function: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """Return a tree with the result of ``function`` for each leaf of ``tree`` and that leaf of ``others``."""
    if others and isinstance(tree, dict | tuple):
        parts = [map_tree(function, *(each[key] for each in (tree, *others))) for key in _keys(tree)]
        return dict(zip(tree, parts, strict=True)) if isinstance(tree, dict) else tuple_like(tree, parts)
    if isinstance(tree, dict):
        # Arrays are tested first, since most leaves are arrays and a function call takes longer.
        return {
            key: function(part) if type(part) is np.ndarray else map_tree(function, part)
            for key, part in tree.items()
        }
    if isinstance(tree, tuple):
        return tuple_like(tree, (map_tree(function, part) for part in tree))
    return function(tree, *others)


def tuple_like(original: tuple[Any, ...], parts: Iterable[Any]) -> Any:
    """Return ``parts`` as a tuple of the type of ``original``, such as GraphInstance, a named tuple."""
    return type(original)(*parts) if hasattr(original, "_fields") else tuple(parts)


def concatenate_trees(name: str, trees: Sequence[Tree]) -> Tree:
    """Concatenate trees of (n, ...) arrays; ValueError if keys or shapes differ, or values would change."""
    first = trees[0]
    if len(trees) == 1:
        return first
    structure = _structure(first)
    for i, tree in enumerate(trees):
        if _structure(tree) != structure:
            raise ValueError(f"item {i} of {name} must be {_parts(first)}, like item 0, got {_parts(tree)}")
    if isinstance(first, dict | tuple):
        keys = _keys(first)
        parts = [concatenate_trees(f"{name}/{key}", [tree[key] for tree in trees]) for key in keys]
        return dict(zip(keys, parts, strict=True)) if isinstance(first, dict) else tuple(parts)
    try:
        joined = np.concatenate(trees)
    except ValueError as error:
        shapes = sorted({str(np.shape(tree)[1:]) for tree in trees})
        rows = f"got rows of shapes {' and '.join(shapes)}"
        raise ValueError(f"all arrays of {name} must have rows of the same shape, {rows}") from error
    if joined.dtype == object:  # objects keep all values
        return joined
    ends = np.cumsum([len(array) for array in trees])
    for array, cast in zip(trees, np.split(joined, ends[:-1]), strict=True):
        is_text = array.dtype.kind == joined.dtype.kind and array.dtype.kind in STRINGS
        if array.dtype != joined.dtype and not is_text and not _is_exact(array, cast):
            dtypes = sorted({str(each.dtype) for each in trees})
            raise ValueError(
                f"the arrays of {name} have the dtypes {' and '.join(dtypes)}, and their common dtype "
                f"{joined.dtype} cannot hold all values exactly; convert them to one dtype"
            )
    return joined


def _is_exact(array: np.ndarray, cast: np.ndarray) -> bool:
    """Whether ``cast``, the result of a cast of ``array``, has the same numbers; False for other dtypes."""
    if array.dtype.kind not in NUMBERS or cast.dtype.kind not in NUMBERS:
        return False
    with np.errstate(all="ignore"):
        back = cast.astype(array.dtype)
    # Signs are compared too, since -1 becomes 255 as uint8, and -1 again when it is cast back.
    same_sign = array.dtype.kind == cast.dtype.kind or np.array_equal(array < 0, cast < 0)
    return same_sign and bool(np.array_equal(back, array, equal_nan=array.dtype.kind == "f"))


def _structure(tree: Tree) -> object:
    """Return the keys of a dict, the length of a tuple, or None for a leaf, to compare two trees."""
    if isinstance(tree, dict):
        return set(tree)
    return len(tree) if isinstance(tree, tuple) else None


def _parts(tree: Tree) -> str:
    if isinstance(tree, dict):
        return f"a dict with the keys {list(tree)}"
    return f"a tuple of length {len(tree)}" if isinstance(tree, tuple) else "an array"


def _keys(tree: dict[str, Tree] | tuple[Tree, ...]) -> list[Any]:
    return list(tree) if isinstance(tree, dict) else list(range(len(tree)))


def as_array(value: Any) -> np.ndarray:
    """Convert an array, a torch tensor on any device, or nested lists of one length to a NumPy array."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if value.is_floating_point() and value.element_size() < 4:  # NumPy has no bfloat16
            value = value.float()
    return np.asarray(value)


def try_as_array(value: Any) -> np.ndarray:
    """Return ``as_array(value)``, or ``np.asarray(None)`` if the value cannot be converted."""
    try:
        return as_array(value)
    except MemoryError:
        raise
    except Exception:  # of any object
        return np.asarray(None)


def as_leaf(
    name: str, value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], *, rounding: bool = False
) -> np.ndarray:
    """Return ``value``, called ``name`` in errors, as an array of the given shape and dtype.

    ValueError if a cast changes a number; with ``rounding``, floats may be rounded to a shorter float dtype.
    """
    try:
        array = as_array(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{name} must be an array of shape {shape}, got {type(value).__name__}: {error}"
        ) from error
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in NUMBERS:
        raise ValueError(f"{name} must hold numbers of dtype {dtype}, got dtype {array.dtype}")
    with np.errstate(all="ignore"):  # values that do not fit are found by comparison
        cast = array.astype(dtype)
    rounded = rounding and array.dtype.kind == "f" and np.dtype(dtype).kind == "f"
    if rounded and np.array_equal(np.isfinite(cast), np.isfinite(array)):
        return cast
    if not _is_exact(array, cast):
        pairs = zip(array.flat, cast.flat, strict=True)
        bad = next(v for v, c in pairs if not (_is_exact(v, c) or (rounded and np.isfinite(c))))
        repair = ", or use her_wrappers.repairs.CastObservation" if name.startswith("observation") else ""
        space = f", or declare {array.dtype} in the space{repair}"
        raise ValueError(
            f"{name} must have dtype {dtype}, got {array.dtype} with {bad}, which {dtype} cannot represent "
            f"exactly; round or clip it{space if name.startswith(('observation', 'action')) else ''}"
        )
    return cast


def take_rows(tree: Tree, rows: np.ndarray) -> Any:
    """Return a tree with the rows at n indices: each (N, ...) array becomes a new (n, ...) array."""
    return map_tree(lambda leaf: leaf.take(rows, axis=0), tree)


def equal_rows(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return which rows of two (N, ...) arrays are equal, (N,) bool; NaN equals NaN."""
    same = (some == others) | ((some != some) & (others != others))  # noqa: PLR0124 - both are NaN
    rows: np.ndarray = same.all(axis=tuple(range(1, same.ndim)))
    return rows


def leaf_arrays(tree: Tree) -> list[np.ndarray]:
    """Return the leaves of a tree, in order."""
    leaves: list[np.ndarray] = []
    map_tree(leaves.append, tree)
    return leaves


_IMMUTABLE = (np.generic, int, float, str, type(None))  # a tuple, since `isinstance` is slower with a union


def copy_tree(value: Any) -> Any:
    """Return a copy of a tree, also of its lists; an object that cannot be copied is kept as it is."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.copy()
    if isinstance(value, _IMMUTABLE):
        return value
    if isinstance(value, dict):
        return {key: copy_tree(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = map(copy_tree, value)
        return list(parts) if isinstance(value, list) else tuple_like(value, parts)
    try:
        return copy.deepcopy(value)
    except Exception:  # a user's __deepcopy__ may raise anything
        return value
