"""Leaves: what a space's arrays are called and look like, read once for every step to come."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.spaces import build_tree, leaf_spaces
from her_wrappers.trees import as_leaf, leaf_at, path_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gymnasium import spaces

    from her_wrappers.trees import Path, Tree


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf of a space.

    Attributes:
        path: The way to it.
        name: What it is called in messages.
        shape: Shape of its arrays.
        dtype: Their dtype.
        key: The one key that leads to it; None where the way is longer or shorter.
    """

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    key: str | None

    @property
    def nbytes(self) -> int:
        """Bytes of one array."""
        return math.prod(self.shape) * self.dtype.itemsize

    def find(self, tree: Tree, where: str) -> Any:
        """Return this leaf of ``tree``.

        Raises:
            ValueError: It has no such leaf.
        """
        if self.key is not None and type(tree) is dict and self.key in tree:
            return tree[self.key]
        return leaf_at(tree, self.path, self.name.split("/", maxsplit=1)[0], where)

    def check(self, value: Any, where: str, *, rounding: bool) -> np.ndarray:
        """Return a value as an array of this leaf.

        Raises:
            ValueError: The shape differs, or a cast would change values.
        """
        return as_leaf(f"{self.name} {where}", value, self.shape, self.dtype, rounding=rounding)


class Leaves:
    """The leaves of one space, in order.

    Args:
        name: What its elements are, for messages.
        space: The space.

    Raises:
        TypeError: The space has elements that are not arrays of one shape.
    """

    def __init__(self, name: str, space: spaces.Space[Any]) -> None:
        self.name = name
        self._space = space
        self._all = [
            Leaf(
                path=path,
                name=path_name((name, *path)),
                shape=leaf.shape or (),
                dtype=np.dtype(leaf.dtype),
                key=path[0] if len(path) == 1 and isinstance(path[0], str) else None,
            )
            for path, leaf in leaf_spaces(space).items()
        ]
        # Most spaces are dicts of leaves; the general way takes several times as long.
        self._keys = None if None in {leaf.key for leaf in self._all} else [leaf.key for leaf in self._all]

    def __iter__(self) -> Iterator[Leaf]:
        """Iterate over the leaves."""
        return iter(self._all)

    def tree(self, arrays: Iterable[Any]) -> Tree:
        """Return the tree that has the given arrays at its leaves."""
        if self._keys is not None:
            return dict(zip(self._keys, arrays, strict=True))
        paths = (leaf.path for leaf in self._all)
        return build_tree(self._space, dict(zip(paths, arrays, strict=True)))

    def require_same(self, space: spaces.Space[Any]) -> None:
        """Refuse a space whose elements look different.

        Raises:
            ValueError: They do.
        """
        if space is self._space:
            return
        if [_look(leaf) for leaf in self._all] != [_look(leaf) for leaf in Leaves(self.name, space)]:
            raise ValueError(
                f"the {self.name} space changed from {self._space} to {space}; "
                "a recorder keeps to one space: make a new one for the new space"
            )


class TransitionLeaves(NamedTuple):
    """The leaves of one environment's observations and of its actions."""

    observations: Leaves
    actions: Leaves

    @classmethod
    def of(cls, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> TransitionLeaves:
        """Return those of two spaces.

        Raises:
            TypeError: A space has elements that are not arrays of one shape.
        """
        return cls(Leaves("observation", observation_space), Leaves("action", action_space))

    def require_same(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        """Refuse other spaces than those of this.

        Raises:
            ValueError: They differ in structure, shapes or dtypes.
        """
        self.observations.require_same(observation_space)
        self.actions.require_same(action_space)


def _look(leaf: Leaf) -> tuple[Any, ...]:
    return leaf.path, leaf.shape, leaf.dtype
