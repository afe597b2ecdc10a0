"""SpaceSpec: the arrays in an element of a space, read once, so that no call recurses through the space."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from her_wrappers.data.trees import Path, Tree, as_leaf, leaves_by_path, map_tree, path_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def leaf_spaces(space: spaces.Space[Any], path: Path = ()) -> dict[Path, spaces.Space[Any]]:
    """Return the spaces of the leaves by path, or raise TypeError if one has no fixed shape."""
    leaves = leaves_by_path(_as_tree(space), path)
    for place, leaf in leaves.items():
        if not isinstance(leaf, spaces.Space) or leaf.shape is None or leaf.dtype is None:
            where = f" of {path_name(place)!r}" if place else ""
            found = " ".join(str(leaf).split())[:100]  # the text of a Text space has all its characters
            raise TypeError(
                f"the space{where} must contain arrays of a fixed shape, but is {found}; "
                "use Box, Discrete, MultiBinary, MultiDiscrete, or a Dict or Tuple of these"
            )
    return leaves


def is_list_of_dicts(value: Any) -> bool:
    """Whether a batch of observations is a list, tuple or array of dicts instead of a dict of arrays."""
    is_rows = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1)
    return is_rows and any(isinstance(part, dict) for part in value)


def _as_tree(space: spaces.Space[Any]) -> Tree:
    if isinstance(space, spaces.Dict):
        return {key: _as_tree(part) for key, part in space.items()}
    return tuple(map(_as_tree, space)) if isinstance(space, spaces.Tuple) else space


@dataclass(frozen=True, slots=True)
class LeafSpec:
    """One leaf of a space: an array in its elements."""

    path: Path  # path of the leaf in the space
    name: str  # name of the leaf in messages, such as ``observation/camera``
    shape: tuple[int, ...]  # shape of one array
    dtype: np.dtype[Any]  # dtype of the array
    key: str | None  # the only key of the path if the path has length 1 and the key is a string, else None

    def find(self, tree: Tree, where: str) -> Any:
        """Return this leaf's value in ``tree``; the ValueError for a missing leaf ends with ``where``."""
        if self.key is not None and type(tree) is dict and self.key in tree:  # faster
            return tree[self.key]
        try:
            for key in self.path:
                tree = tree[key]
        except (KeyError, IndexError, TypeError) as error:
            is_list = is_list_of_dicts(tree)
            got = f"; got a {type(tree).__name__} of dicts instead of a dict of arrays" if is_list else ""
            raise ValueError(f"{self.name} is missing {where}{got}") from error
        return tree

    def check(self, value: Any, where: str, *, rounding: bool = False) -> np.ndarray:
        """Return ``value`` as an array of this leaf's shape and dtype, or raise ValueError; see `as_leaf`."""
        return as_leaf(f"{self.name} {where}", value, self.shape, self.dtype, rounding=rounding)


@dataclass(frozen=True)
class SpaceSpec:
    """The leaves of a space, in order, and the structure of nested dicts and tuples that contains them."""

    name: str  # name of the elements in messages, such as ``"observation"``
    leaves: tuple[LeafSpec, ...]  # the leaves, in the order of the space
    # tree with the structure of the space; the value of each leaf is its position in ``leaves``
    structure: Tree

    @classmethod
    def of(cls, name: str, space: spaces.Space[Any]) -> SpaceSpec:
        """Return the spec of a space; ``name`` is the name of its elements, such as ``"observation"``."""
        leaf_spaces(space)  # raises TypeError
        return cls._of(name, _as_tree(space), lambda leaf: (leaf.shape, np.dtype(leaf.dtype)))

    @classmethod
    def of_rows(cls, name: str, tree: Tree) -> SpaceSpec:
        """Return the spec of one row of a tree of (N, ...) arrays."""
        return cls._of(name, map_tree(np.asarray, tree), lambda array: (array.shape[1:], array.dtype))

    @classmethod
    def _of(cls, name: str, tree: Tree, describe: Callable[[Any], Any]) -> SpaceSpec:
        specs: list[LeafSpec] = []
        for path, leaf in leaves_by_path(tree).items():
            shape, dtype = describe(leaf)
            key = path[0] if len(path) == 1 and isinstance(path[0], str) else None
            specs.append(LeafSpec(path, path_name((name, *path)), shape, dtype, key))
        positions = iter(range(len(specs)))
        return cls(name, tuple(specs), map_tree(lambda _: next(positions), tree))

    def __iter__(self) -> Iterator[LeafSpec]:
        """Iterate over the leaves."""
        return iter(self.leaves)

    @property
    def paths(self) -> list[Path]:
        """Paths of the leaves."""
        return [leaf.path for leaf in self.leaves]

    @cached_property
    def flat_keys(self) -> tuple[Any, ...] | None:
        """Keys of the leaves if the elements are dicts of arrays, else None."""
        is_flat = isinstance(self.structure, dict) and len(self.structure) == len(self.leaves)
        return tuple(self.structure) if is_flat and all(len(path) == 1 for path in self.paths) else None

    @cached_property
    def float_pairs(self) -> list[tuple[int, int]]:
        """Position pairs of float leaves of one shape and dtype; a remaining leaf is paired with itself."""
        same: dict[Any, list[int]] = {}
        for i, leaf in enumerate(self.leaves):
            if leaf.dtype.kind == "f":
                same.setdefault((leaf.shape, leaf.dtype), []).append(i)
        return [(few[i], few[i : i + 2][-1]) for few in same.values() for i in range(0, len(few), 2)]

    def same_arrays(self, other: SpaceSpec) -> bool:
        """Whether this spec and ``other`` have leaves of the same paths, shapes and dtypes, in any order."""
        mine, others = ({(leaf.path, leaf.shape, leaf.dtype) for leaf in each} for each in (self, other))
        return mine == others

    def build(self, arrays: Sequence[Any]) -> Tree:
        """Return a tree of this structure with ``arrays`` at its leaves, in the order of ``leaves``."""
        if self.structure == 0:  # the space itself is the leaf
            return arrays[0]
        if self.flat_keys is not None:
            return dict(zip(self.flat_keys, arrays, strict=True))
        return map_tree(lambda position: arrays[position], self.structure)

    def check_rows(
        self,
        tree: Tree,
        rows: int,
        container: str,
        *,
        rounding: bool = False,
        inspect: Callable[[LeafSpec, np.ndarray], None] | None = None,
    ) -> Any:
        """Return ``tree`` as (rows, ...) arrays of the space's shapes and dtypes; see `as_leaf`.

        ``inspect`` is called with each float leaf and its array if one may have NaN or infinite numbers.
        """
        checked = []
        for leaf in self.leaves:
            value, shape = leaf.find(tree, f"in {container}"), (rows, *leaf.shape)
            if type(value) is not np.ndarray or value.dtype != leaf.dtype or value.shape != shape:
                value = as_leaf(f"{leaf.name} of {container}", value, shape, leaf.dtype, rounding=rounding)
            checked.append(value)
        if inspect is not None:
            total = 0.0  # a product with NaN or an infinite number is not finite, so one tests two arrays
            for i, j in self.float_pairs:
                total += float(np.vdot(checked[i], checked[j]))
            if not math.isfinite(total):  # or the numbers are very large
                for leaf, value in zip(self.leaves, checked, strict=True):
                    if leaf.dtype.kind == "f":
                        inspect(leaf, value)
        return self.build(checked)
